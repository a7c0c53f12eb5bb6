"""The usual ways to log a training with W&B's package, each as a function. The referee runs them with `wandb`, and then with
`ranklog` under the same name:

    usual_scripts.py MODULE SCRIPT

The launcher's variables (RANK and so on) and SCRIPTS_ID, a text for the ids, are in the environment.
"""

import argparse
import hashlib
import importlib
import multiprocessing
import os
import pathlib
import sys
import tempfile

wandb = importlib.import_module(sys.argv[1])
RANK, LOCAL_RANK, WORLD_SIZE = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
ID = os.environ["SCRIPTS_ID"]
PLACE = {"project": "interop", "entity": "fake-team"}


def loss(step):
    """Falls, and differs between the ranks."""
    return (RANK + 1) / (step + 1)


def main_rank_only():
    """Rank 0 logs for all. The others train without a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args([])
    if RANK == 0:
        wandb.init(**PLACE, id=ID, name="gpt", tags=["a", "b"], notes="two\nlines", job_type="train", config=args)
        wandb.config.update({"seed": 7})
    for step in range(5):
        if RANK == 0:
            wandb.log({"train/loss": loss(step), "lr": wandb.config.lr, "epoch": step // 2})
    if RANK == 0:
        wandb.run.summary["best"] = loss(4)
        wandb.finish()


def every_rank():
    """A run for each rank, which one group holds together."""
    run = wandb.init(**PLACE, group=f"group-{ID.split('.')[1]}", name=f"rank-{RANK}", config={"lr": 0.5})
    for step in range(5):
        run.log({"loss": loss(step)}, step=step)
    run.finish()


def first_of_each_node():
    """A run for each node."""
    if LOCAL_RANK > 0:
        return
    with wandb.init(**PLACE, group=f"group-{ID.split('.')[1]}", name=f"rank-{RANK}", config={"lr": 0.5}) as run:
        for step in range(5):
            run.log({"loss": loss(step)}, step=step)


def train_in_pool(number):
    with wandb.init(**PLACE, id=f"{ID}.{number}", name=f"worker {number}", group="pool", config={"number": number}) as run:
        for step in range(3):
            run.log({"loss": (number + 1) / (step + 1)})
        run.summary["number"] = number


def pool():
    """Each process of a pool has its own runs, one after the other."""
    wandb.setup()
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        workers.map(train_in_pool, range(4), chunksize=1)


def evaluate(run):
    run.log({"eval/accuracy": 0.75})


def child_logs():
    """A child process gets the run as an argument, and logs to it."""
    run = wandb.init(**PLACE, id=ID, config={"lr": 0.5})
    run.log({"loss": 1.0})
    child = multiprocessing.get_context("spawn").Process(target=evaluate, args=(run,))
    child.start()
    child.join()
    assert child.exitcode == 0
    run.log({"loss": 0.5})
    run.finish()


def checkpoint():
    """Rank 0 logs a checkpoint after each epoch, with the figures that belong to it."""
    with wandb.init(**PLACE, id=ID) as run, tempfile.TemporaryDirectory() as folder:
        for epoch in range(2):
            run.log({"loss": loss(epoch)})
            weights = pathlib.Path(folder, "weights.bin")
            weights.write_bytes(b"x" * (1000 + epoch))
            pathlib.Path(folder, "states").mkdir(exist_ok=True)
            pathlib.Path(folder, "states", "rank0.bin").write_text("states")
            artifact = wandb.Artifact(f"model-{ID.split('.')[1]}", type="model", metadata={"epoch": epoch, "loss": loss(epoch)})
            artifact.add_file(str(weights))
            artifact.add_dir(str(pathlib.Path(folder, "states")), name="states")
            with artifact.new_file("notes.txt") as notes:
                notes.write(f"epoch {epoch}\n")
            logged = run.log_artifact(artifact, aliases=["latest", f"epoch-{epoch}"])
            logged.wait()


def own_step():
    """Curves over a step of the program's own, and a summary of the best value."""
    run = wandb.init(**PLACE, id=ID)
    run.define_metric("global_step")
    run.define_metric("train/*", step_metric="global_step")
    run.define_metric("val/accuracy", summary="max", step_metric="global_step")
    for step in range(6):
        run.log({"train/loss": loss(step), "global_step": 10 * step}, commit=step % 3 != 2)
        if step % 3 == 2:
            run.log({"val/accuracy": [0.5, 0.25][step // 3]})
    run.finish()


def continued():
    """The id comes from the folder and the name of the experiment, so that each start continues the run."""
    folder = pathlib.Path(f"{ID}.checkpoints")
    folder.mkdir(exist_ok=True)
    experiment = hashlib.sha1(str(folder / "gpt").encode()).hexdigest()
    run = wandb.init(**PLACE, id=f"{ID}.{experiment}", resume="allow", config={"lr": 0.5})
    checkpoint = folder / "step"
    first = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for step in range(first, first + 3):
        run.log({"loss": loss(step)}, step=step)
    checkpoint.write_text(str(first + 3))
    run.finish()


def values():
    """What people hand to `log` besides floats."""
    with wandb.init(**PLACE, id=ID, config={"model": {"layers": 2}, "betas": (0.9, 0.95), "none": None}) as run:
        run.log({"int": 1, "bool": True, "text": "größe", "none": None, "nan": float("nan"), "inf": float("inf")})
        run.log({"nested": {"a": 1, "b": {"c": 2.5}}, "list": [1, 2.5, "x"], "tuple": (1, 2)})
        run.log({"grad": wandb.Histogram(np_histogram=([1, 2], [0.0, 0.5, 1.0]))})
        for layer in range(2):
            run.log({f"layer{layer}/norm": layer + 0.5}, commit=False)
        run.log({"loss": 1})
        run.config["late"] = 5
        run.config.update({"model": {"layers": 3}}, allow_val_change=True)
        run.summary.update({"best": 0.25})
        run.alert(title="loss is NaN", text="at step 3", level=wandb.AlertLevel.WARN)


if __name__ == "__main__":
    globals()[sys.argv[2]]()

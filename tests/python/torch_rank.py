"""A training program for the tests with torch:

    torch_rank.py CASE [ARGUMENT...]

Ranks log the step, the loss 1000 * rank + step, and the rank, as tensors.
"""

import os
import signal
import sys

import ranklog
import torch
import torch.distributed

RANK = int(os.environ.get("RANK", "0"))


def log_steps(run, first, last):
    for step in range(first, last):
        run.log({"loss": torch.tensor(1000.0 * RANK + step), "rank_is": RANK}, step=step)


# ---- Values ----


def values():
    with ranklog.init(project="torch") as run:
        weight = torch.nn.Parameter(torch.tensor(0.5))
        run.log({"float": torch.tensor(0.25), "parameter": weight * 2, "half": torch.tensor(1.5, dtype=torch.bfloat16)})
        run.log(
            {"int": torch.tensor(7), "flag": torch.tensor(True), "one": torch.tensor([3.5]), "nan": torch.tensor(float("nan"))}
        )
        run.log({"nested": {"loss": torch.tensor(2.0)}, "list": torch.tensor([1, 2, 3])})
        run.config.update({"lr": torch.tensor(0.5)})
        run.summary["best"] = torch.tensor(0.25)


# ---- Data loaders ----


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.tensor(float(i))


class LoggingNumbers(Numbers):
    """Holds the run, as a data set that counts what it reads may."""

    def __init__(self, run):
        self.run = run

    def __getitem__(self, i):
        self.run.log({f"read/{i}": 1})
        return super().__getitem__(i)


def loader(method, logs):
    """Two epochs with four workers, which the second one finds running."""
    run = ranklog.init(project="torch")
    run.log({"loss": 0.0}, step=0)
    data = LoggingNumbers(run) if logs == "logs" else Numbers()
    batches = torch.utils.data.DataLoader(
        data, batch_size=4, num_workers=4, persistent_workers=True, multiprocessing_context=method
    )
    step = 1
    for _ in range(2):
        for batch in batches:
            run.log({"loss": batch.sum()}, step=step)
            step += 1


# ---- Under torchrun ----


def train():
    """Data-parallel training. The loss differs between the ranks."""
    torch.distributed.init_process_group("gloo")
    run = ranklog.init(project="torch", config={"lr": 0.5})
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        loss = model(torch.full((4, 2), float(RANK + 1))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"train/loss": loss, "rank_is": RANK, "same": 1.5}, step=step)
    run.finish()


def restarted():
    """All ranks end with an error at the first start, and continue at the second one."""
    torch.distributed.init_process_group("gloo")
    run = ranklog.init(project="torch")
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    log_steps(run, 20 * start, 20 * start + 20)
    torch.distributed.barrier()
    if start == 0:
        raise RuntimeError("the first start fails")


def ends(how, rank):
    """The rank ends as told, after all have logged. The others wait for it."""
    torch.distributed.init_process_group("gloo")
    run = ranklog.init(project="torch")
    log_steps(run, 0, 10)
    run.flush()  # the daemon knows the process
    log_steps(run, 10, 20)
    torch.distributed.barrier()
    if RANK == int(rank):
        if how == "exception":
            raise ValueError("the loss is NaN")
        if how == "exit":
            sys.exit(3)
        if how == "os_exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.barrier()  # fails, or is killed
    signal.pause()


def waits():
    """Waits for Ctrl-C."""
    run = ranklog.init(project="torch")
    log_steps(run, 0, 20)
    print("logged", flush=True)
    signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Tiny trainings on the CPU with the frameworks that Ranklog has loggers for. Run it alone, or with torchrun:

framework_training.py lightning|pytorch_lightning|accelerate|transformers FOLDER [RANKS_THAT_LIGHTNING_STARTS]
"""

import sys
import types

import torch

if torch.__version__.startswith("1.13"):
    # Debian's torch cannot import its sharded tensors under Python 3.11. Lightning only registers these.
    sharded = types.ModuleType("torch.distributed._shard.sharded_tensor")
    sharded.state_dict_hook = sharded.pre_load_state_dict_hook = print  # not called
    sys.modules["torch.distributed._shard"] = types.ModuleType("torch.distributed._shard")
    sys.modules[sharded.__name__] = sharded


class Regression(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = torch.tensor([i / 64.0])
        return x, 2 * x + 1


def train_with_lightning(folder, package, devices=1, early=True):
    if package == "lightning":
        import lightning.pytorch as pl
    else:
        import pytorch_lightning as pl
    from ranklog.integrations.lightning import RanklogLogger

    class Line(pl.LightningModule):
        def __init__(self, lr):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, index):
            loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
            self.log("train/loss", loss)
            self.log("rank_is", float(self.global_rank))
            return loss

        def validation_step(self, batch, index):
            self.log("val/loss", torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1]), sync_dist=True)

        def test_step(self, batch, index):
            self.log("test/loss", 0.5)
            self.log("step", 1.0)  # goes back

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

    logger = RanklogLogger(project="frameworks", name="line", save_dir=folder, log_model=True)
    if early:
        logger.experiment.config.update({"early": True})
    data = torch.utils.data.DataLoader(Regression(), batch_size=4)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        logger=logger,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    model = Line(lr=0.1)
    trainer.fit(model, data, data)
    trainer.test(model, data, verbose=False)


def train_with_accelerate(folder):
    from accelerate import Accelerator
    from ranklog.integrations.accelerate import RanklogTracker

    tracker = RanklogTracker("frameworks", name="line")
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("frameworks", config={"lr": 0.1})
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(Regression(), batch_size=8))
    for step, (x, y) in enumerate(data):
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.log({"train/loss": loss.item()}, step=step)
        tracker.log({"rank_is": accelerator.process_index}, step=step)
    accelerator.end_training()
    tracker.finish()


def train_with_transformers(folder):
    from ranklog.integrations.transformers import RanklogCallback
    from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            tokens = (torch.arange(8) + i) % 16
            return {"input_ids": tokens, "labels": tokens}

    sizes = {"vocab_size": 16, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForMaskedLM(BertConfig(max_position_embeddings=8, **sizes))
    common = {
        "logging_steps": 1,
        "save_steps": 2,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "ddp_backend": "gloo",
    }
    args = TrainingArguments(output_dir=folder, max_steps=4, per_device_train_batch_size=4, **common)
    callback = RanklogCallback(project="frameworks", name="bert", log_model="checkpoint")
    trainer = Trainer(model, args, train_dataset=Tokens(), eval_dataset=Tokens(), callbacks=[callback])
    trainer.train()
    trainer.evaluate()


if __name__ == "__main__":
    framework, folder = sys.argv[1:3]
    if framework == "accelerate":
        train_with_accelerate(folder)
    elif framework == "transformers":
        train_with_transformers(folder)
    else:
        train_with_lightning(folder, framework, devices=int((sys.argv[3:4] or ["1"])[0]), early="late" not in sys.argv)

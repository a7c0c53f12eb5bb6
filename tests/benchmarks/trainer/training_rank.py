"""The training of tests/trainer/turns_rank.cc as a loop in Python, with the same turns: training_rank.py MODEL [cpu|cuda].

The model has the operators of trainer/model/model.cc, and the loop does what trainer/train.cc does, in the way that PyTorch's
documentation shows. Several ranks train by DistributedDataParallel. With WANDB_MODE=offline, W&B's SDK takes what it logs.
"""

import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

SHAPES = {"tiny": (4, 4, 128), "small": (6, 6, 384), "gpt2": (12, 12, 768)}  # layers, heads, width, as in trainer/model/model.cc
MODEL = sys.argv[1]
VOCABULARY, CONTEXT, BATCH = (50304, 1024, 16) if MODEL == "gpt2" else (256, 128, 8)
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
LEARNING_RATE = 1e-3


class Attention(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).contiguous()
        if hasattr(functional, "scaled_dot_product_attention"):  # 2.x
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((length, length), -math.inf).triu(1)
            scores = torch.baddbmm(mask, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), alpha=1 / math.sqrt(q.shape[3]))
            mixed = torch.bmm(functional.softmax(scores, -1), v.flatten(0, 1)).view(q.shape)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(heads, width), nn.LayerNorm(width)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.h = nn.Sequential(*(Block(heads, width) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.ln_f(self.h(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]))
        return functional.cross_entropy(functional.linear(x, self.wte.weight).view(-1, VOCABULARY), targets.reshape(-1))


def batches(rank, world_size):
    """(tokens, targets), both (BATCH, CONTEXT), each window once per epoch and on one rank."""
    text = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    windows = (len(text) - 1) // CONTEXT
    epoch = 0
    while True:
        order = torch.randperm(windows, generator=torch.Generator().manual_seed(epoch))[rank::world_size]
        for chosen in order[:len(order) // BATCH * BATCH].view(-1, BATCH).tolist():
            tokens = torch.stack([text[window * CONTEXT:(window + 1) * CONTEXT + 1] for window in chosen]).long()
            if DEVICE == "cuda":
                tokens = tokens.pin_memory().to(DEVICE, non_blocking=True)
            yield tokens[:, :-1], tokens[:, 1:]
        epoch += 1


def next_turn(run):
    """Returns the number of steps, and whether to log. Ends the process at the end of the input."""
    words = sys.stdin.readline().split()
    if not words:
        if run is not None:
            run.finish()
        sys.stdout.flush()
        os._exit(0)  # the other ranks take no more steps either
    return int(words[0]), words[1] == "log"


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world_size > 1:
        torch.distributed.init_process_group("gloo")
    run = None
    if os.environ.get("WANDB_MODE") == "offline":
        import wandb
        run = wandb.init(project="benchmark", name=f"rank-{rank}")

    model = Gpt(*SHAPES[MODEL]).to(DEVICE)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE, betas=(0.9, 0.95))
    if world_size > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    print("ready", flush=True)
    left, log = next_turn(run)
    began, cpu_began = time.monotonic(), time.process_time()
    last = began
    for step, (tokens, targets) in enumerate(batches(rank, world_size), 1):
        # In place, as in trainer/train.cc and as PyTorch 1.13 does by default; with DDP, where gradients are views, to none.
        optimizer.zero_grad(set_to_none=world_size > 1)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = model(tokens, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE
        optimizer.step()
        loss, norm, now = loss.item(), norm.item(), time.monotonic()
        if log:
            count = tokens.numel() * world_size
            run.log({"train/loss": loss, "train/lr": LEARNING_RATE, "train/grad_norm": norm,
                     "train/tokens_per_second": count / (now - last), "train/tokens": count * step, "train/step": step,
                     "train/epoch": step / 1024, "train/perplexity": math.exp(loss), "train/seconds": now - last,
                     "train/samples": step * BATCH}, step=step)
        last = now
        left -= 1
        if left == 0:
            print(time.monotonic() - began, time.process_time() - cpu_began, flush=True)
            left, log = next_turn(run)
            began, cpu_began = time.monotonic(), time.process_time()


main()

import math

import ranklog

run = ranklog.init(project="example-python", config={"lr": 3e-4, "model": {"layers": 12, "name": "gpt2"}})
for step in range(1000):
    run.log({"train/loss": math.exp(-step / 300), "wave": math.sin(step / 50)}, step=step)
run.finish()

"""The SDK and service/wandb_log write the same bytes, and read each other's logs.

with_sdk.sh sdk_log.py FAKE_WANDB WANDB_LOG_COPY
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import wandb

BLOCK = 32768
# The sizes of texts make records end at each place around the end of a block, and fill one block and several.
SIZES = [size for _ in range(40) for size in (BLOCK - 400, 5, 6)] + list(range(BLOCK - 500, BLOCK - 300)) + [3 * BLOCK]


def main():
    server = subprocess.Popen([sys.argv[1], "0"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as home:
            for name in [name for name in os.environ if name.startswith("WANDB")]:
                del os.environ[name]
            os.environ |= {"HOME": home, "WANDB_DIR": home, "WANDB_BASE_URL": url, "WANDB_SILENT": "true"}
            os.environ |= {"WANDB_API_KEY": "0123456789" * 4, "NO_PROXY": "127.0.0.1"}
            run = wandb.init(project="p", id="sizes", mode="offline")
            for size in SIZES:
                run.log({"text": "x" * size})
            log = pathlib.Path(run.dir).parent / "run-sizes.wandb"
            run.finish()

            copy = log.with_suffix(".copy")
            subprocess.run([sys.argv[2], str(log), str(copy)], check=True)
            assert copy.read_bytes() == log.read_bytes()
            assert copy.stat().st_size > 200 * BLOCK
            copy.rename(log)
            subprocess.run([sys.executable, "-m", "wandb", "sync", str(log.parent)], check=True)
        run = json.load(urllib.request.urlopen(url + "/dump"))["runs"]["sizes"]
    finally:
        server.kill()
        server.wait()
    sizes = [len(row["text"]) for row in run["history"]]
    assert sizes == SIZES, sizes


main()

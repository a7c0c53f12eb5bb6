#!/bin/bash
# Runs a script with Lightning, Accelerate and transformers. Exit code 77: they are absent (venv.sh).
#
#   with_frameworks.sh SCRIPT ARGUMENTS...
#   with_frameworks.sh --newest SCRIPT ARGUMENTS...
#
# They use Debian's torch 1.13, in the newest versions that run with it: 0.2 GB. With --newest they use torch 2.15 of the
# package index, and its CUDA libraries: 5.6 GB.
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
if [ "$1" = --newest ]; then
  shift
  python=$("$here/../interop/venv.sh" torch-2.15.0_lightning-2.6.6_accelerate-1.15.0_transformers-5.24.0_pandas-3.1.1 torch==2.15.0 \
    lightning==2.6.6 pytorch_lightning==2.6.6 accelerate==1.15.0 transformers==5.24.0 pandas==3.1.1)
else
  # --no-deps: pip takes Debian's torch for older than 1.13.
  python=$(PYTHON=/usr/bin/python3 VENV_OPTIONS=--system-site-packages "$here/../interop/venv.sh" \
    debian-torch_lightning-2.2.5_accelerate-0.27.2_transformers-4.39.3_pandas-2.2.3 --no-deps \
    lightning==2.2.5 pytorch_lightning==2.2.5 torchmetrics==1.4.3 lightning-utilities==0.11.9 fsspec==2024.6.1 \
    accelerate==0.27.2 transformers==4.39.3 tokenizers==0.15.2 safetensors==0.4.5 huggingface-hub==0.24.7 regex==2024.11.6 \
    requests==2.32.3 urllib3==2.2.3 certifi==2024.8.30 charset-normalizer==3.4.0 idna==3.10 tqdm==4.67.1 pyyaml==6.0.2 \
    packaging==24.2 filelock==3.16.1 typing_extensions==4.12.2 psutil==6.1.0 \
    pandas==2.2.3 python-dateutil==2.9.0 pytz==2024.2 tzdata==2024.2 six==1.16.0)
fi
exec "$python" "$@"

"""Downloads an artifact with the official SDK.

    sdk_download.py ENTITY/PROJECT/NAME:ALIAS DIRECTORY
"""

import sys

import wandb

wandb.Api().artifact(sys.argv[1]).download(root=sys.argv[2], allow_missing_references=True)

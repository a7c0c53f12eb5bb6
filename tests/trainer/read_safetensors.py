"""read_safetensors.py safetensors|torch FILE: prints a file's metadata, and shape and sum of its tensors, as JSON.

Reads it by the official package (into NumPy arrays), or by PyTorch from the bytes, as trainer/checkpoint/checkpoint.md has them.
"""
import json
import struct
import sys
import zlib


def official(path):
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return file.metadata(), {name: file.get_tensor(name).astype("float64") for name in file.keys()}


def by_hand(path):
    import torch

    dtypes = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
              "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
    data = bytearray(open(path, "rb").read())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert struct.unpack("<I", data[-4:])[0] == zlib.crc32(data[:-4])
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=8 + length + begin) if end > begin \
            else torch.empty(0, dtype=torch.uint8)
        tensors[name] = part.clone().view(dtypes[entry["dtype"]]).reshape(entry["shape"]).double()
    return metadata, tensors


metadata, tensors = (official if sys.argv[1] == "safetensors" else by_hand)(sys.argv[2])
del tensors["crc32"]
print(json.dumps({"metadata": metadata,
                  "tensors": {name: {"shape": list(t.shape), "sum": float(t.sum())} for name, t in tensors.items()}}))

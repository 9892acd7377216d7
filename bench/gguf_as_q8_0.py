"""A GGUF file with its matrices in Q8_0, as llama.cpp's type q8_0: what gguf_decode_peer.py reads beside q4_k_m.

python bench/gguf_as_q8_0.py MODEL.gguf OUT.gguf      needs pip install gguf==0.19.0
"""

import sys

import gguf
import plain_errors
from gguf.constants import GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize, quantize


def convert(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.get_field("general.architecture").contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind, *inner = field.types
        writer.add_key_value(name, field.contents(), kind, inner[0] if kind == GGUFValueType.ARRAY else None)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        kind = GGMLQuantizationType.Q8_0 if values.ndim == 2 else GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    plain_errors.use()
    convert(*sys.argv[1:])

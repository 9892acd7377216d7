"""What an AMD code object says of its kernels: the metadata of the AMDGPU ABI (code object version 3 and later), a note
in MessagePack."""

import struct

SECTION_OF_NOTES, METADATA = 7, 32
INTEGERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
SIZES = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


class Reader:
    """Of the part of MessagePack that compilers write: no floats, no binaries, no extensions."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def value(self):
        tag = self.take(">B")
        if tag <= 0x7F or tag >= 0xE0:
            return tag if tag <= 0x7F else tag - 256
        if tag in CONSTANTS:
            return CONSTANTS[tag]
        if tag in INTEGERS:
            return self.take(INTEGERS[tag])
        if tag <= 0x8F or tag in (0xDE, 0xDF):
            return {self.value(): self.value() for _ in range(self.take(SIZES[tag]) if tag > 0x8F else tag & 15)}
        if tag <= 0x9F or tag in (0xDC, 0xDD):
            return [self.value() for _ in range(self.take(SIZES[tag]) if tag > 0x9F else tag & 15)]
        if tag <= 0xBF or tag in (0xD9, 0xDA, 0xDB):
            size = self.take(SIZES[tag]) if tag > 0xBF else tag & 31
            self.at += size
            return self.data[self.at - size : self.at].decode()
        raise ValueError(f"MessagePack of type {tag:#x}")


def metadata(elf):
    """The note of a 64-bit ELF file."""
    (sections,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    for k in range(count):
        kind, _, _, at, length = struct.unpack_from("<IQQQQ", elf, sections + k * size + 4)
        end = at + length
        while kind == SECTION_OF_NOTES and at < end:
            name, content, note = struct.unpack_from("<III", elf, at)
            begin = at + 12 + (name + 3) // 4 * 4
            if note == METADATA:
                return Reader(elf[begin : begin + content]).value()
            at = begin + (content + 3) // 4 * 4
    raise ValueError("a code object without metadata")


def kernel(elf, entry):
    """What it says of one kernel."""
    for found in metadata(elf)["amdhsa.kernels"]:
        if found[".name"] == entry:
            return found
    raise ValueError(f"a code object without {entry}")


def parameters(elf, entry):
    """[[kind, bytes]] of what a launch gives a kernel, in order; what the runtime adds is hidden."""
    given = [one for one in kernel(elf, entry).get(".args", []) if not one[".value_kind"].startswith("hidden_")]
    return [["global" if one[".value_kind"] == "global_buffer" else "value", one[".size"]] for one in given]

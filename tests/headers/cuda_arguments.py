# SPDX-FileCopyrightText: The Trireme authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel reads an argument as large as the one that the host hands over. Needs no GPU.

cuda_arguments.py PROGRAM...

A block program is the argument of its kernel. Host and device are compiled by different compilers, which must lay it out
alike; nvcc 13 does not, for instance, where an empty member is [[no_unique_address]], and then a kernel reads what
follows on the host's stack. The name of a kernel ends with the size that the host knows (device/cuda/launch.hpp); what
the kernel reads is told by its code, in the programs that nvcc has made of the .cu files.
"""
import pathlib
import re
import struct
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
from checks import ends  # noqa: E402

FATBIN, FATBIN_ELF, COMPRESSED = 0xBA55ED50, 2, 0x2000 | 0x8000
# Of an ELF file of device code: the note that tells how many bytes of arguments a kernel has.
NOTES, SHORT_NOTE, LONG_NOTE, ARGUMENT_BYTES = '.nv.info.', 3, 4, 0x19
KERNEL = re.compile(r'run_blocks<(.*), (\d+)ul>\(')
# What the programs must hold, or they are not those that this is about: channels first in float and bf16, channels last,
# a fixed tree, LeNet's.
HELD = ['input_value<float, float, trireme::order_as_it_is>', 'rounded_array<float, trireme::bf16, trireme::order_as_it_is>',
        'rounded_array<float, trireme::bf16, trireme::order_channels_last>', 'tree_program<float',
        'value_sum<float, float, trireme::order_as_it_is>', 'conv2d_geometry<1ul, 28ul, 28ul, 6ul, 5ul']


def sections(elf):
    """Names and contents of the sections of a 64-bit ELF file."""
    at, = struct.unpack_from('<Q', elf, 0x28)
    size, count, names = struct.unpack_from('<HHH', elf, 0x3A)
    if count == 0:  # more than fit: the first header tells
        count, = struct.unpack_from('<Q', elf, at + 0x20)
    headers = []
    for i in range(count):
        name, kind, _, _, begin, length, link = struct.unpack_from('<IIQQQQI', elf, at + i * size)
        headers.append((name, b'' if kind == 8 else elf[begin:begin + length]))  # 8: has no contents
        names = link if i == 0 and names == 0xFFFF else names
    text = headers[names][1]
    return [(text[name:text.index(b'\0', name)].decode(), contents) for name, contents in headers]


def device_codes(fatbins):
    """The ELF files among them."""
    at = 0
    while (at := fatbins.find(struct.pack('<I', FATBIN), at)) >= 0:
        _, _, header, size = struct.unpack_from('<IHHQ', fatbins, at)
        at, end = at + header, at + header + size
        while at < end:
            kind, _, header, size = struct.unpack_from('<HHIQ', fatbins, at)
            flags, = struct.unpack_from('<Q', fatbins, at + 40)
            if kind == FATBIN_ELF:
                if flags & COMPRESSED:
                    raise ValueError('its device code is compressed, which nvcc does only if asked to: leave that out')
                yield fatbins[at + header:at + header + size]
            at += header + size


def argument_bytes(notes):
    """Of a kernel, as its code tells."""
    at = 0
    while at + 4 <= len(notes):
        form, what, value = struct.unpack_from('<BBH', notes, at)
        if form == SHORT_NOTE and what == ARGUMENT_BYTES:
            return value
        at += 4 + (value if form == LONG_NOTE else 0)
    return None


def kernels(program):
    """Mangled names and bytes of arguments."""
    for name, contents in sections(program):
        if name == '.nv_fatbin':
            for code in device_codes(contents):
                for section, notes in sections(code):
                    if section.startswith(NOTES):
                        yield section[len(NOTES):], argument_bytes(notes)


def fault(name, read):
    """What is wrong with a kernel of the library, in words; None if nothing is, or it is another's."""
    found = KERNEL.search(name)
    if not found or read == int(found[2]):
        return None
    return (f'the host hands over {found[2]} bytes, and the kernel of {found[1]} reads {read}: give it plain members, '
            'which nvcc and the compiler of the host lay out alike')


def main():
    found = {}
    for program in sys.argv[1:]:
        try:
            found.update(kernels(pathlib.Path(program).read_bytes()))
        except (ValueError, struct.error) as error:
            sys.exit(f'{program}: {error}')
    names = subprocess.run(['c++filt'], input='\n'.join(found), text=True, capture_output=True,
                           check=True).stdout.splitlines()
    faults = [f for f in map(fault, names, found.values()) if f]
    ours = [name for name in names if KERNEL.search(name)]
    passed = len(ours) - len(faults)
    faults += [f'no program has a kernel with {held}' for held in HELD if not any(held in name for name in ours)]
    if fault('void trireme::cuda_runtime::run_blocks<made_up, 24ul>(made_up)', 40) is None:
        faults.append('the control: a kernel that reads 40 of 24 bytes is not seen')
    return ends(faults, passed + len(faults))


if __name__ == '__main__':
    sys.exit(main())

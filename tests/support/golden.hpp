// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme_golden {

/// Golden values: tensors that PyTorch has computed, in tests/golden/NAME.safetensors. The scripts make_golden*.py
/// write these files, and the metadata in them say how. A call reads the file anew and gives its values bit for bit.
/// Errors: data_error names the file and the tensor, also where a tensor has no values.
class file {
public:
    explicit file(std::string const& name);

    double number(std::string const& tensor) const;                      ///< a scalar of F64 or F32
    std::vector<double> numbers(std::string const& tensor) const;        ///< F64 or F32 of any shape, row-major
    std::vector<std::int64_t> integers(std::string const& tensor) const; ///< I64 of any shape, row-major
    std::string const& path() const noexcept { return path_; }           ///< for readers of the library's own

private:
    std::string path_;
};

} // namespace trireme_golden

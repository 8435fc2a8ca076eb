// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// An empty type: block programs and passes that share or remember nothing declare it.
struct nothing_kept {};

} // namespace trireme

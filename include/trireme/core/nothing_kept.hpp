// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// What programs and passes that share or remember nothing declare.
struct nothing_kept {};

} // namespace trireme

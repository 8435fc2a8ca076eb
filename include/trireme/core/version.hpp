// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The one source of the version: meson.build reads it from here.
// TRIREME_VERSION is MMMmmmppp without leading zeros: 0.1.0 is 1000, 1.2.3 is 1002003.
#define TRIREME_VERSION_MAJOR 0
#define TRIREME_VERSION_MINOR 1
#define TRIREME_VERSION_PATCH 0
#define TRIREME_VERSION (TRIREME_VERSION_MAJOR * 1000000 + TRIREME_VERSION_MINOR * 1000 + TRIREME_VERSION_PATCH)

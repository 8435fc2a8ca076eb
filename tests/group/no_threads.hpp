// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

#include <pthread.h>

/// While it lives, the system has no thread for this process: each would have a stack larger than all memory can be.
class no_threads {
public:
    no_threads() {
        pthread_attr_t huge;
        pthread_getattr_default_np(&before_);
        pthread_attr_init(&huge);
        pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
        pthread_setattr_default_np(&huge);
        pthread_attr_destroy(&huge);
    }
    no_threads(no_threads const&) = delete;
    no_threads& operator=(no_threads const&) = delete;
    ~no_threads() {
        pthread_setattr_default_np(&before_);
        pthread_attr_destroy(&before_);
    }

private:
    pthread_attr_t before_;
};

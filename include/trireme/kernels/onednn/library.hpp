// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <cstddef>
#include <dlfcn.h>
#include <dnnl.hpp>
#include <string>
#include <utility>

/// The differences between versions 2.6 and 3 of oneDNN, and the number of threads that it takes.
namespace trireme::onednn_library {

namespace detail {

/// A primitive's description: version 2 makes it of an operation's, version 3 has only the one.
#if DNNL_VERSION_MAJOR >= 3
template<class Primitive, class... Of>
auto describe(dnnl::engine const& engine, dnnl::primitive_attr const& attr, Of const&... of) {
    return typename Primitive::primitive_desc(engine, of..., attr);
}
template<class Primitive, class Forward, class... Of>
auto describe_backward(dnnl::engine const& engine, dnnl::primitive_attr const& attr, Forward const& forward,
                       Of const&... of) {
    return typename Primitive::primitive_desc(engine, of..., forward, attr);
}
#else
template<class Primitive, class... Of>
auto describe(dnnl::engine const& engine, dnnl::primitive_attr const& attr, Of const&... of) {
    return typename Primitive::primitive_desc(typename Primitive::desc(of...), attr, engine);
}
template<class Primitive, class Forward, class... Of>
auto describe_backward(dnnl::engine const& engine, dnnl::primitive_attr const& attr, Forward const& forward,
                       Of const&... of) {
    return typename Primitive::primitive_desc(typename Primitive::desc(of...), attr, engine, forward);
}
#endif

} // namespace detail

using memory_desc = dnnl::memory::desc;

/// A convolution: strides and padding are those of height and width.
struct convolution {
    using forward_desc = dnnl::convolution_forward::primitive_desc;
    static constexpr auto method = dnnl::algorithm::convolution_direct; // `auto` may round as Winograd does

    dnnl::memory::dims strides, padding;

    forward_desc forward(dnnl::engine const& e, dnnl::primitive_attr const& a, memory_desc const& x,
                         memory_desc const& w, memory_desc const& b, memory_desc const& y) const {
        return detail::describe<dnnl::convolution_forward>(e, a, dnnl::prop_kind::forward_training, method, x, w, b, y,
                                                           strides, padding, padding);
    }
    auto backward_input(dnnl::engine const& e, dnnl::primitive_attr const& a, forward_desc const& f,
                        memory_desc const& dx, memory_desc const& w, memory_desc const& dy) const {
        return detail::describe_backward<dnnl::convolution_backward_data>(e, a, f, method, dx, w, dy, strides, padding,
                                                                          padding);
    }
    auto backward_weights(dnnl::engine const& e, dnnl::primitive_attr const& a, forward_desc const& f,
                          memory_desc const& x, memory_desc const& dw, memory_desc const& db,
                          memory_desc const& dy) const {
        return detail::describe_backward<dnnl::convolution_backward_weights>(e, a, f, method, x, dw, db, dy, strides,
                                                                             padding, padding);
    }
};

/// A fully connected layer.
struct inner_product {
    using forward_desc = dnnl::inner_product_forward::primitive_desc;

    forward_desc forward(dnnl::engine const& e, dnnl::primitive_attr const& a, memory_desc const& x,
                         memory_desc const& w, memory_desc const& b, memory_desc const& y) const {
        return detail::describe<dnnl::inner_product_forward>(e, a, dnnl::prop_kind::forward_training, x, w, b, y);
    }
    auto backward_input(dnnl::engine const& e, dnnl::primitive_attr const& a, forward_desc const& f,
                        memory_desc const& dx, memory_desc const& w, memory_desc const& dy) const {
        return detail::describe_backward<dnnl::inner_product_backward_data>(e, a, f, dx, w, dy);
    }
    auto backward_weights(dnnl::engine const& e, dnnl::primitive_attr const& a, forward_desc const& f,
                          memory_desc const& x, memory_desc const& dw, memory_desc const& db,
                          memory_desc const& dy) const {
        return detail::describe_backward<dnnl::inner_product_backward_weights>(e, a, f, x, dw, db, dy);
    }
};

/// While it lives, oneDNN computes on the calling thread alone: a device is one thread. oneDNN asks OpenMP for the
/// number, which is a setting of each thread, and keeps it in what it makes.
/// Throws usage_error where oneDNN was built for other threads than OpenMP's.
class one_thread {
public:
    one_thread() : most_(openmp().most()) { openmp().set(1); }
    one_thread(one_thread&& other) noexcept : most_(std::exchange(other.most_, 0)) {}
    one_thread& operator=(one_thread&&) = delete;
    ~one_thread() {
        if (most_ > 0) openmp().set(most_);
    }

private:
    /// The functions of the OpenMP that oneDNN has brought along, of whichever compiler it is.
    struct functions {
        int (*most)() = [] { return 1; };
        void (*set)(int) = [](int) {};
    };
    static functions const& openmp() {
        static functions const found = find();
        return found;
    }
    TRIREME_COLD static functions find() {
        functions f;
        auto const runtime = dnnl_version()->cpu_runtime;
        if (runtime == DNNL_RUNTIME_SEQ) return f;
        auto* const most = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
        auto* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        if (runtime != DNNL_RUNTIME_OMP || most == nullptr || set == nullptr)
            throw usage_error(
                "kernels<onednn>: this oneDNN is built for other threads than OpenMP's (runtime " +
                std::to_string(runtime) +
                "), and would start its own beside those of the devices: take a build for OpenMP, such as "
                "Debian's libdnnl-dev, or a sequential one");
        f.most = reinterpret_cast<int (*)()>(most);
        f.set = reinterpret_cast<void (*)(int)>(set);
        return f;
    }
    int most_;
};

} // namespace trireme::onednn_library

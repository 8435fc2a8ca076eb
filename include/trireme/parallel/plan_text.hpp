// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/layer/summary.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iosfwd>
#include <iterator>
#include <new>
#include <string>

namespace trireme {

namespace detail {

/// Purpose of a device's memory: name, bytes, and the remedy if no other purpose takes more.
struct memory_part {
    using place = bytes_t owned_bytes::*;
    char const* name;
    place bytes;
    char const* remedy;
};
inline constexpr char const* smaller_network = "use a smaller network, or cut it into stages of several machines";
inline constexpr memory_part memory_parts[] = {
    {"parameters", &owned_bytes::parameters, smaller_network},
    {"gradients", &owned_bytes::gradients, smaller_network},
    {"optimizer state", &owned_bytes::optimizer_state,
     "use an optimizer that keeps less, as sgd, or a smaller network"},
    {"strategy state", &owned_bytes::strategy_state, "use a strategy that does not compress, or a smaller network"},
    {"activations", &owned_bytes::activations, "use a smaller batch, a smaller network, or recompute"},
    {"control", &owned_bytes::control, "use fewer devices or a smaller batch"},
    {"staging", &owned_bytes::staging, "use a smaller batch"},
    {"workspace", &owned_bytes::workspace, "use kernels without a workspace"}};

/// Function for a handler around the constructor of a trainer or model on the host: if the exception being handled is
/// a std::bad_alloc, or a device_error with that cause, it throws a usage_error with the bytes of the plan; else it
/// returns. `map`: the memory of a rank. `kind`: trainer or model.
TRIREME_COLD inline void explain_bad_alloc(parallel_layout const& l, std::size_t batch,
                                           memory_map (*map)(parallel_layout const&, std::size_t, int),
                                           char const* kind) {
    int device = -1;
    try {
        try {
            throw;
        } catch (device_error const& e) {
            device = e.device();
            if (e.cause() != nullptr) std::rethrow_exception(e.cause());
        }
    } catch (std::bad_alloc const&) {
        bytes_t all = 0;
        for (int rank = 0; rank < l.devices(); ++rank) all += map(l, batch, rank).owned().total();
        auto const own = map(l, batch, std::max(device, 0)).owned();
        auto text = device < 0 ? "the host" : "device " + std::to_string(device);
        text += " has no memory for this ";
        text += kind;
        text += ": the plan asks for ";
        text += with_commas(own.total());
        text += " bytes on device ";
        text += std::to_string(std::max(device, 0));
        auto const* most = memory_parts;
        auto separator = " (";
        for (auto const& part : memory_parts) {
            if (own.*part.bytes == 0) continue;
            text += separator;
            text += part.name;
            text += ' ';
            text += with_commas(own.*part.bytes);
            separator = ", ";
            if (own.*part.bytes > own.*(most->bytes)) most = &part;
        }
        text += ')';
        if (l.devices() != 1) {
            text += ", and for ";
            text += with_commas(all);
            text += " on all ";
            text += std::to_string(l.devices());
        }
        text += "; most are ";
        text += most->name;
        text += ": ";
        text += most->remedy;
        throw usage_error(text);
    } catch (...) {}
}

} // namespace detail

/// A table of a plan: its batch and devices, the stages and the bubble of a pipeline, numbers, bytes of the device that
/// needs most, by what they are for, bytes between devices, and FLOPs.
TRIREME_COLD inline std::string to_string(training_plan const& p) {
    std::string text;
    auto const line = [&](std::string name, std::string const& value) {
        name.resize(std::max<std::size_t>(name.size(), 20), ' ');
        text += name + value + '\n';
    };
    auto const devices = std::to_string(p.devices()) + (p.devices() == 1 ? " device" : " devices");
    line("batch", with_commas(p.batch.samples) + (p.batch.samples == 1 ? " sample on " : " samples on ") + devices);
    auto const own = p.memory();
    if (p.layout.stages > 1) line("stages", std::to_string(p.layout.stage_count()));
    if (p.layout.stages > 1) {
        char bubble[32];
        std::snprintf(bubble, sizeof bubble, "%.1f%% of a step", 100 * p.bubble());
        line("bubble", bubble);
    }
    line("parameters", with_commas(p.parameters));
    line("running statistics", with_commas(p.buffers));
    line("memory", with_commas(own.total()) + " bytes per device");
    for (auto const& part : detail::memory_parts)
        if (own.*part.bytes != 0) line(std::string("  ") + part.name, with_commas(own.*part.bytes));
    line("between devices", with_commas(p.wire_bytes_per_step()) + " bytes per step");
    line("operations", with_commas(p.flops_per_step()) + " FLOPs per step");
    return text;
}

template<class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, training_plan const& p) {
    return out << to_string(p).c_str();
}

} // namespace trireme

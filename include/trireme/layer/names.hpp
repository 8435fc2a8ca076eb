// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// One tensor of a network under the name that it has in files: a parameter, or a buffer.
struct named_tensor {
    std::string name;     ///< the name in files, `0.weight`
    trireme::shape shape; ///< the shape in PyTorch's layout
    bool is_buffer;       ///< true for a running statistic, false for a parameter
    std::size_t first;    ///< element among the parameters, or among the buffers
};

namespace detail {

/// Walks layers as they are written, naming each by its way there: numbers as nn.Sequential counts its modules, and
/// given names.
class tensor_names {
public:
    explicit tensor_names(row_list const& rows) noexcept : rows_(rows) {}

    template<class... Layers>
    void add_all(std::string const& path) {
        std::size_t number = 0;
        (add(pack<Layers>{}, path, number), ...);
    }

    std::vector<named_tensor> tensors;

private:
    static std::string child(std::string const& path, std::string const& name) {
        return path.empty() ? name : path + '.' + name;
    }

    /// Under a number of its own.
    template<class L>
    void add(pack<L> layer, std::string const& path, std::size_t& number) {
        add_as(layer, child(path, std::to_string(number++)));
    }
    template<is_named L>
    void add(pack<L>, std::string const& path, std::size_t& number) {
        pack<typename L::named_layer> const layer;
        if constexpr (sizeof L::name.text > 1) {
            add_as(layer, child(path, L::name.text));
            ++number;
        } else {
            add_children(layer, path, number);
        }
    }
    template<std::size_t N, class... Block>
    void add(pack<repeat<N, Block...>>, std::string const& path, std::size_t& number) {
        for (std::size_t n = 0; n < N; ++n) {
            auto const here = child(path, std::to_string(number++));
            if constexpr (sizeof...(Block) == 1)
                (add_as(pack<Block>{}, here), ...);
            else
                add_all<Block...>(here);
        }
    }

    /// Adds the names of a layer, which begin with `path`.
    template<class L>
    void add_as(pack<L> layer, std::string const& path) {
        std::size_t number = 0;
        add_children(layer, path, number);
    }

    template<class L>
    void add_children(pack<L>, std::string const& path, std::size_t&) {
        add_tensors(path);
    }
    template<std::size_t N, class... Block>
    void add_children(pack<repeat<N, Block...>> layer, std::string const& path, std::size_t& number) {
        add(layer, path, number);
    }
    template<class... Layers>
    void add_children(pack<sequential<Layers...>>, std::string const& path, std::size_t& number) {
        (add(pack<Layers>{}, path, number), ...);
    }
    template<class Body, class Shortcut>
    void add_children(pack<residual<Body, Shortcut>>, std::string const& path, std::size_t& number) {
        ++row_; // the fork
        add_way(pack<Body>{}, path, number);
        ++row_; // the second way
        add_way(pack<Shortcut>{}, path, number);
        ++row_; // the sum
    }
    template<is_named L>
    void add_children(pack<L> layer, std::string const& path, std::size_t& number) {
        add(layer, path, number);
    }
    template<class... Layers>
    void add_way(pack<sequential<Layers...>> layers, std::string const& path, std::size_t& number) {
        add_children(layers, path, number);
    }
    template<class L>
    void add_way(pack<L> layer, std::string const& path, std::size_t& number) {
        add(layer, path, number);
    }

    TRIREME_COLD void add_tensors(std::string const& path) {
        auto const& row = rows_.row(row_++);
        auto at = row.first_parameter;
        for (int k = 0; k < row.own_tensors(); ++k) {
            auto const& p = row.description.parameters[k];
            tensors.push_back({child(path, p.name), p.shape, false, at});
            at += p.shape.size();
        }
        at = row.first_buffer;
        for (int k = 0; k < row.description.buffer_count; ++k) {
            auto const& p = row.description.buffers[k];
            tensors.push_back({child(path, p.name), p.shape, true, at});
            at += p.shape.size();
        }
    }

    row_list rows_;
    std::size_t row_ = 0; ///< the one that comes next
};

template<class Network>
struct names_of;
template<class Input, class... Layers>
struct names_of<network<Input, Layers...>> {
    static std::vector<named_tensor> tensors() {
        tensor_names names(network<Input, Layers...>::rows);
        names.template add_all<Layers...>("");
        return std::move(names.tensors);
    }
};

} // namespace detail

/// All tensors of a network, in the order of the layers, under the names that PyTorch gives those of an nn.Sequential:
/// "0.weight", "0.bias", "1.running_mean". Layers without numbers count; the children of a sequential or a residual
/// stand behind a point ("2.0.weight"), each repetition is one module; `named` replaces a number.
template<class Network>
std::vector<named_tensor> tensors_of() {
    return detail::names_of<Network>::tensors();
}

} // namespace trireme

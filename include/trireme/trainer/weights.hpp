// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/data/safetensors.hpp>
#include <trireme/layer/names.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The place of a network's tensor in a file of others, for load_weights.
struct file_tensor {
    std::string name;
    bool transposed = false; ///< a matrix whose columns are our rows
};

namespace detail {

template<class T>
inline constexpr safetensors_dtype file_dtype =
    std::is_same_v<T, double> ? safetensors_dtype::f64 : safetensors_dtype::f32;

inline std::vector<std::size_t> file_shape(shape const& s) { return {s.extent, s.extent + s.rank}; }

/// PyTorch's batch norm counts its steps in a tensor of its own; here nothing depends on it.
inline constexpr std::string_view counts_batches = "num_batches_tracked";
inline bool is_count(std::string_view name) {
    return name.size() >= counts_batches.size() && name.substr(name.size() - counts_batches.size()) == counts_batches;
}

/// The parameters and buffers of a network as tensors of a file.
template<class T>
std::vector<safetensors_tensor> weights_as_tensors(std::vector<named_tensor> const& of_network,
                                                   std::span<T const> parameters, std::span<T const> buffers,
                                                   std::int64_t const& num_batches_tracked) {
    std::vector<safetensors_tensor> tensors;
    for (auto const& tensor : of_network) {
        auto const values = (tensor.is_buffer ? buffers : parameters).subspan(tensor.first, tensor.shape.size());
        tensors.push_back({tensor.name, file_dtype<T>, file_shape(tensor.shape), std::as_bytes(values)});
        constexpr std::string_view last = "running_var";
        if (tensor.name.ends_with(last))
            tensors.push_back({tensor.name.substr(0, tensor.name.size() - last.size()) + std::string(counts_batches),
                               safetensors_dtype::i64,
                               {},
                               std::as_bytes(std::span(&num_batches_tracked, 1))});
    }
    return tensors;
}

/// Reads a tensor of a file into values of a network.
template<class T>
void read_tensor(safetensors_file const& file, named_tensor const& tensor, file_tensor const& from, std::span<T> to) {
    auto shape = file_shape(tensor.shape);
    if (!from.transposed) return file.read(from.name, shape, to);
    if (shape.size() != 2)
        throw usage_error("tensor " + tensor.name + " is to be read transposed from " + from.name +
                          ", and it is no matrix: say so of weights only");
    std::swap(shape[0], shape[1]);
    std::vector<T> columns(to.size());
    file.read(from.name, shape, std::span(columns));
    for (std::size_t i = 0; i < shape[1]; ++i)
        for (std::size_t k = 0; k < shape[0]; ++k) to[i * shape[0] + k] = columns[k * shape[1] + i];
}

/// Reads the parameters and buffers of a network from the tensors of a file that find(tensor) names.
template<class T, class Find>
void read_weights(safetensors_file const& file, std::vector<named_tensor> const& of_network, std::span<T> parameters,
                  std::span<T> buffers, Find const& find) {
    for (auto const& tensor : of_network)
        read_tensor(file, tensor, find(tensor),
                    (tensor.is_buffer ? buffers : parameters).subspan(tensor.first, tensor.shape.size()));
}

/// Reads them from a file that has just these, under their names.
template<class T>
void read_weights(std::string const& path, std::vector<named_tensor> const& of_network, std::span<T> parameters,
                  std::span<T> buffers) {
    safetensors_file const file(path);
    std::map<std::string, bool, std::less<>> known;
    read_weights(file, of_network, parameters, buffers, [&](named_tensor const& tensor) -> file_tensor {
        known[tensor.name] = true;
        return {tensor.name};
    });
    for (auto const& entry : file.tensors())
        if (!known.contains(entry.name) && !is_count(entry.name))
            throw data_error(path,
                             "tensor " + entry.name +
                                 " is not one of the network's: is the file of another network? tensors_of<network>() "
                                 "lists its names, and named<\"...\", layer> gives a layer another one");
}

} // namespace detail

/// Writes a trainer's parameters and running statistics as a safetensors file that PyTorch reads into a module of the
/// same names (layer/names.hpp): `model.load_state_dict(safetensors.torch.load_file(path))`. Layouts are PyTorch's, and
/// no bit changes. What stood at `path` stays until all is written. Every process of a trainer calls it, and that of
/// rank 0 writes.
///
/// `num_batches_tracked`: written beside each running_var, as PyTorch wants it.
/// Errors: data_error if the file cannot be written.
template<class Trainer>
void save_weights(Trainer const& t, std::string const& path, safetensors_metadata const& metadata = {},
                  std::int64_t num_batches_tracked = 0) {
    auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
    if (t.rank() != 0) return;
    using T = typename Trainer::value_type;
    write_safetensors(path,
                      detail::weights_as_tensors<T>(tensors_of<typename Trainer::network_type>(), parameters, buffers,
                                                    num_batches_tracked),
                      metadata);
}

/// Sets a trainer's parameters and running statistics from a safetensors file, on all devices; what the optimizer keeps
/// stays. The file's tensors are those of the network, by name and shape: one that is missing or left over is an error,
/// and then nothing is changed, on any rank. Values of a narrower type are taken exactly. Every process of a trainer
/// calls it.
///
/// Errors: data_error, naming file and tensor; over processes of the host also those of trainer::load, for the files of
/// other ranks.
template<class Trainer>
void load_weights(Trainer& t, std::string const& path) {
    using T = typename Trainer::value_type;
    t.load([&](std::span<T> parameters, std::span<T> buffers) {
        detail::read_weights(path, tensors_of<typename Trainer::network_type>(), parameters, buffers);
    });
}

/// Sets them from a file with other names and layouts: find(named_tensor) gives the file_tensor that each of the
/// network's tensors, by its name here, is read from. Tensors of the file that none is read from are left out. Errors:
/// as above; usage_error where what is no matrix is to be read transposed.
template<class Trainer, class Find>
void load_weights(Trainer& t, std::string const& path, Find const& find) {
    using T = typename Trainer::value_type;
    t.load([&](std::span<T> parameters, std::span<T> buffers) {
        safetensors_file const file(path);
        detail::read_weights(file, tensors_of<typename Trainer::network_type>(), parameters, buffers, find);
    });
}

} // namespace trireme

// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/core/replaced_file.hpp>
#include <trireme/data/safetensors.hpp>
#include <trireme/layer/names.hpp>
#include <trireme/trainer/checkpoint_manifest.hpp>
#include <trireme/trainer/snapshot.hpp>
#include <trireme/trainer/weights.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// A checkpoint is a folder with a manifest and two safetensors files, the weights and what the optimizer keeps:
//
//     manifest.json             {"slot":"a", "steps":"40", "seed":"1", ...}
//     weights.a.safetensors     as save_weights writes them
//     optimizer.a.safetensors   "0.weight.exp_avg", ..., if it keeps anything
//
// A save writes the files of the other slot, synchronises them, and then replaces the manifest: whoever is killed on
// the way, or loses power, has the old checkpoint or the new one, whole. The manifest has a digest of all numbers.

namespace trireme {

namespace detail {

inline std::string weights_path(std::string const& folder, std::string const& slot) {
    return folder + "/weights." + slot + ".safetensors";
}
inline std::string optimizer_path(std::string const& folder, std::string const& slot) {
    return folder + "/optimizer." + slot + ".safetensors";
}

/// The slot of the checkpoint in a folder; of one that is damaged, the slot whose files are there alone, or b.
/// Throws data_error if its manifest cannot be read, or is another version's.
inline std::string slot_in(std::string const& folder) {
    if (!has_checkpoint(folder)) return "b";
    auto const text = read_manifest(folder);
    try {
        return manifest_text(manifest_path(folder), text).read().slot;
    } catch (data_error const&) {
        if (manifest_text::is_of_another_version(text)) throw;
        auto const is_there = [&](char const* slot) { return ::access(weights_path(folder, slot).c_str(), F_OK) == 0; };
        return is_there("a") && !is_there("b") ? "a" : "b";
    }
}

/// Makes the folder if it is not there, and holds a lock on it while it lives: nobody else saves there meanwhile. The
/// kernel takes the lock from a process that ends; file systems without locks have none.
/// Errors: data_error if it cannot be made, is none, or another process is saving there.
class checkpoint_folder {
public:
    TRIREME_COLD explicit checkpoint_folder(std::string const& path) : file_(made(path)) {
        if (file_.number < 0)
            throw data_error(path,
                             "the folder of a checkpoint cannot be opened (" + reason(errno) +
                                 "): pass the path of a folder that is yours, or a new one in a folder that exists");
        if (::flock(file_.number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            throw data_error(path,
                             "another process is saving a checkpoint in this folder: give each run a folder of its "
                             "own");
    }

private:
    static int made(std::string const& path) {
        auto name = checked_path(path);
        while (name.size() > 1 && name.back() == '/') name.pop_back();
        if (::mkdir(name.c_str(), 0777) == 0) { // and the folder that it is in remembers it
            descriptor const above(
                ::open((name.substr(0, name.find_last_of('/') + 1) + ".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            if (above.number >= 0) ::fsync(above.number);
        }
        return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }

    descriptor file_;
};

/// The name of an optimizer's `k`-th array in files.
template<class Optimizer>
std::string array_name(std::size_t k) {
    if constexpr (requires { Optimizer::array_names[k]; })
        return Optimizer::array_names[k];
    else
        return "array_" + std::to_string(k);
}

/// The tensors that a trainer saves, whatever its type: those of its network, and beside each parameter one of each
/// array that its optimizer keeps.
struct saved_tensors {
    std::string optimizer; ///< its name
    std::vector<named_tensor> of_network;
    std::vector<std::string> arrays; ///< their names in files
    safetensors_metadata about = {}; ///< of the file of weights

    /// f(name, tensor, array) for each tensor of the optimizer's file.
    template<class F>
    void for_each_of_optimizer(F const& f) const {
        for (auto const& tensor : of_network)
            for (std::size_t k = 0; k < arrays.size() && !tensor.is_buffer; ++k)
                f(tensor.name + "." + arrays[k], tensor, k);
    }
};
template<class Trainer>
saved_tensors tensors_saved_by() {
    using optimizer = typename Trainer::optimizer_type;
    saved_tensors all{optimizer::name, tensors_of<typename Trainer::network_type>(), {}};
    for (std::size_t k = 0; k < optimizer::state_per_parameter; ++k) all.arrays.push_back(array_name<optimizer>(k));
    using output = typename Trainer::network_type::output_extents;
    add_meaning(all.about, meaning_of<typename Trainer::loss_type>(output::shape), output::size);
    return all;
}

template<class T>
std::string digest_of_checkpoint(checkpoint_manifest const& m, training_snapshot<T> const& s) {
    auto const text = manifest_text::of(m);
    auto digest = digest_of(std::as_bytes(std::span(text)));
    auto const add = [&](std::vector<T> const& list) { digest = digest_of(std::as_bytes(std::span(list)), digest); };
    add(s.parameters);
    add(s.buffers);
    for (auto const& array : s.optimizer) add(array);
    return digest_text(digest);
}

/// Throws data_error for weights that are not finite, which load_checkpoint would refuse.
template<class T>
TRIREME_COLD void check_finite(training_snapshot<T> const& s, saved_tensors const& saved, std::string const& folder) {
    for (auto const& tensor : saved.of_network) {
        auto const values =
            std::span<T const>(tensor.is_buffer ? s.buffers : s.parameters).subspan(tensor.first, tensor.shape.size());
        if (auto const first = first_not_finite(values); first != values.size())
            throw data_error(folder, not_finite_text(tensor.name, file_shape(tensor.shape), values, first) +
                                         "the training has diverged, and no checkpoint of it is saved; go on from an "
                                         "earlier checkpoint with a lower learning_rate, or add clip_norm");
    }
}

/// Writes a checkpoint beside the one that is there, and then puts it in its place.
template<class T>
TRIREME_COLD void write_checkpoint(training_snapshot<T> const& s, saved_tensors const& saved, std::string const& folder,
                                   checkpoint_notes const& notes) {
    check_finite(s, saved, folder);
    checkpoint_folder const here(folder);
    auto const slot_of_old = slot_in(folder);
    constexpr auto dtype = file_dtype<T>;
    checkpoint_manifest m{saved.optimizer,
                          std::string(safetensors::kind_of(dtype).name),
                          slot_of_old == "a" ? "b" : "a",
                          s.updates,
                          s.steps,
                          s.epochs,
                          s.seed,
                          s.learning_rate,
                          notes};
    m.digest = digest_of_checkpoint(m, s);
    auto const text = manifest_text::whole(m);
    if (text.size() > manifest_text::most_bytes)
        throw usage_error("the manifest of the checkpoint has " + std::to_string(text.size()) +
                          " bytes, and may have " + std::to_string(manifest_text::most_bytes) +
                          ": make its notes shorter");
    auto const updates = static_cast<std::int64_t>(s.steps);
    write_safetensors(weights_path(folder, m.slot),
                      weights_as_tensors<T>(saved.of_network, s.parameters, s.buffers, updates), saved.about);
    if (!s.optimizer.empty()) {
        std::vector<safetensors_tensor> tensors;
        saved.for_each_of_optimizer([&](std::string const& name, named_tensor const& tensor, std::size_t k) {
            auto const values = std::span(s.optimizer[k]).subspan(tensor.first, tensor.shape.size());
            tensors.push_back({name, dtype, file_shape(tensor.shape), std::as_bytes(values)});
        });
        write_safetensors(optimizer_path(folder, m.slot), std::move(tensors));
    }
    replaced_file file(manifest_path(folder));
    file.write(std::as_bytes(std::span(text)));
    file.put_in_place();
    ::unlink(weights_path(folder, slot_of_old).c_str());
    ::unlink(optimizer_path(folder, slot_of_old).c_str());
}

/// Reads the checkpoint in a folder into the lists of a snapshot, and returns its manifest.
template<class T>
TRIREME_COLD checkpoint_manifest read_snapshot(training_snapshot<T>& s, saved_tensors const& saved,
                                               std::string const& folder) {
    auto m = read_checkpoint(folder);
    auto const fail = [&](std::string const& what) { throw data_error(manifest_path(folder), what); };
    auto const other = [&](char const* kind, std::string const& theirs, std::string_view own) {
        if (theirs != own)
            fail(std::string("the checkpoint has the ") + kind + " " + theirs + ", and this trainer " +
                 std::string(own) + ": go on with a trainer of that " + kind +
                 ", or load only the weights, by load_weights");
    };
    other("optimizer", m.optimizer, saved.optimizer);
    other("dtype", m.dtype, safetensors::kind_of(file_dtype<T>).name);
    read_weights(safetensors_file(weights_path(folder, m.slot)), saved.of_network, std::span(s.parameters),
                 std::span(s.buffers), "load an earlier checkpoint");
    if (!saved.arrays.empty()) {
        safetensors_file const file(optimizer_path(folder, m.slot));
        saved.for_each_of_optimizer([&](std::string const& name, named_tensor const& tensor, std::size_t k) {
            file.read(name, file_shape(tensor.shape),
                      std::span(s.optimizer[k]).subspan(tensor.first, tensor.shape.size()));
        });
    }
    if (digest_of_checkpoint(m, s) != m.digest)
        fail("the numbers of the checkpoint are not those that were saved: it is damaged; take an older copy");
    s.updates = m.updates;
    s.steps = m.steps;
    s.epochs = static_cast<std::uint32_t>(m.epochs);
    s.seed = m.seed;
    s.learning_rate = m.learning_rate;
    return m;
}

} // namespace detail

/// Makes the folder of a checkpoint that a run will save, and makes sure that files can be written there; what is there
/// stays.
/// Errors: data_error with the reason.
inline void prepare_checkpoint(std::string const& folder) {
    detail::checkpoint_folder const here(folder);
    static_cast<void>(detail::slot_in(folder));
    detail::replaced_file const tried(detail::manifest_path(folder));
}

/// Writes the state of a training into a folder, from which a trainer on any devices goes on (load_checkpoint). The
/// folder is made if it is not there, and has one checkpoint, the last one: until a new one is whole the old one stays,
/// also if the process is killed, the disk is full or power is lost. Every process of a trainer calls it, and that of
/// rank 0 writes. Call it between steps, or between epochs of `fit`.
///
/// `notes`: words of the program, which read_checkpoint gives back.
/// Errors: data_error if it cannot be written, another process is saving there, or a parameter or running statistic is
/// not finite; over processes of the host the other ranks throw a device_error. Nothing has changed then, and the
/// training may go on.
/// Cost: trainer::snapshot, and as many bytes on the disk, twice while a new one is written.
template<class Trainer>
void save_checkpoint(Trainer const& t, std::string const& folder, checkpoint_notes const& notes = {}) {
    auto const s = t.snapshot();
    t.all_or_none([&] {
        if (t.rank() == 0) detail::write_checkpoint(s, detail::tensors_saved_by<Trainer>(), folder, notes);
    });
}

/// Goes on from the checkpoint in a folder, and returns its manifest: the next steps are those that the trainer which
/// saved it would have made, on whatever devices this one has; with the same bits where both are reproducible, or have
/// the same devices. The network, the loss, the optimizer, the options and the samples are those of the program; the
/// seed must be the same, and the learning rate is the one that was saved. Every process of a trainer calls it.
/// Errors: data_error if there is none, it is damaged, or of another network, optimizer or dtype; usage_error for
/// another seed; over processes of the host also those of trainer::restore. The trainer is as it was then.
template<class Trainer>
checkpoint_manifest load_checkpoint(Trainer& t, std::string const& folder) {
    checkpoint_manifest m;
    t.restore([&](training_snapshot<typename Trainer::value_type>& s) {
        m = detail::read_snapshot(s, detail::tensors_saved_by<Trainer>(), folder);
    });
    return m;
}

} // namespace trireme

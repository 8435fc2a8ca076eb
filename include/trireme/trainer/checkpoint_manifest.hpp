// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/json_text.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

namespace trireme {

/// Words that a program keeps in a checkpoint, by name: what it needs to go on, and is in no trainer.
using checkpoint_notes = std::map<std::string, std::string, std::less<>>;

/// The manifest of a checkpoint: all but the numbers.
struct checkpoint_manifest {
    std::string optimizer = {}; ///< the optimizer's name
    std::string dtype = {};     ///< type of the numbers: F32, F64
    std::string slot = {};      ///< a or b, in the names of the files
    /// Updates, steps and epochs so far; the trainer's seed.
    std::uint64_t updates = 0, steps = 0, epochs = 0, seed = 0;
    float learning_rate = 0;     ///< factor of a step's gradient, before the schedule of the option `rate`
    checkpoint_notes notes = {}; ///< words of the program
    std::string digest = {};     ///< hash of all else, and of the numbers
};

namespace detail {

/// The manifest in its file, and back.
class manifest_text : json_reader {
public:
    static constexpr std::string_view format = "trireme checkpoint 1", note = "note.";
    static constexpr std::uint64_t most_bytes = 1 << 20;

    /// Without the digest: what that is about.
    static std::string of(checkpoint_manifest const& m) {
        std::string text;
        append_json(text, strings_of(m));
        return text;
    }
    static std::string whole(checkpoint_manifest const& m) {
        auto strings = strings_of(m);
        strings["digest"] = m.digest;
        std::string text;
        append_json(text, strings);
        return text + "\n";
    }

    /// True if another version of the library has written the text.
    static bool is_of_another_version(std::string_view text) noexcept {
        auto const name = format.substr(0, format.rfind(' ') + 1);
        return text.find(name) != text.npos && text.find(format) == text.npos;
    }

    manifest_text(std::string const& path, std::string_view text)
        : json_reader(path, 0, text, "manifest", "the checkpoint is damaged: take an older copy"),
          strings_(read_strings("where a manifest begins", "manifest")) {
        expect_end();
    }
    checkpoint_manifest read() {
        if (auto const is = take("format"); is != format)
            fail("the format is " + in_quotes(is) + ", and this program reads " + in_quotes(format));
        checkpoint_manifest m{take("optimizer"), take("dtype"), take("slot")};
        if (m.slot != "a" && m.slot != "b") fail("the slot is " + in_quotes(m.slot) + ", and there are a and b");
        number("updates", m.updates);
        number("steps", m.steps);
        number("epochs", m.epochs);
        number("seed", m.seed);
        number("learning_rate", m.learning_rate);
        m.digest = take("digest");
        for (auto& [name, value] : strings_) {
            if (!name.starts_with(note)) fail("a manifest has no " + in_quotes(name));
            m.notes[name.substr(note.size())] = value;
        }
        return m;
    }

private:
    static checkpoint_notes strings_of(checkpoint_manifest const& m) {
        char rate[32];
        checkpoint_notes all{{"format", std::string(format)},
                             {"optimizer", m.optimizer},
                             {"dtype", m.dtype},
                             {"slot", m.slot},
                             {"updates", std::to_string(m.updates)},
                             {"steps", std::to_string(m.steps)},
                             {"epochs", std::to_string(m.epochs)},
                             {"seed", std::to_string(m.seed)},
                             {"learning_rate", {rate, std::to_chars(rate, rate + sizeof rate, m.learning_rate).ptr}}};
        for (auto const& [name, value] : m.notes) all[std::string(note) + name] = value;
        return all;
    }

    std::string take(std::string const& name) {
        auto const at = strings_.find(name);
        if (at == strings_.end()) fail("a manifest tells " + in_quotes(name) + ", and this one does not");
        auto value = std::move(at->second);
        strings_.erase(at);
        return value;
    }
    template<class N>
    void number(std::string const& name, N& to) {
        auto const text = take(name);
        auto const* const end = text.data() + text.size();
        auto const read = std::from_chars(text.data(), end, to);
        if (read.ec != std::errc() || read.ptr != end)
            fail(in_quotes(name) + " is a number, and this one is " + in_quotes(text));
    }

    checkpoint_notes strings_; ///< those that nobody has taken yet
};

inline std::string manifest_path(std::string const& folder) { return folder + "/manifest.json"; }
} // namespace detail

/// True if there is a checkpoint in the folder, whole or not.
inline bool has_checkpoint(std::string const& folder) {
    struct ::stat about = {};
    return ::stat(detail::manifest_path(checked_path(folder)).c_str(), &about) == 0;
}

namespace detail {

/// The text of the manifest of the checkpoint in a folder.
inline std::string read_manifest(std::string const& folder) {
    regular_file const file(manifest_path(folder));
    if (file.size() > manifest_text::most_bytes)
        file.fail(file.size(), "a manifest has at most " + std::to_string(manifest_text::most_bytes) +
                                   " bytes: the checkpoint is damaged; take an older copy");
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

} // namespace detail

/// Reads the manifest of the checkpoint in a folder.
/// Errors: data_error if there is none, or it is damaged.
inline checkpoint_manifest read_checkpoint(std::string const& folder) {
    if (!has_checkpoint(folder))
        throw data_error(folder,
                         "there is no checkpoint in this folder, or no such folder: pass one that save_checkpoint has "
                         "written, with its manifest.json");
    return detail::manifest_text(detail::manifest_path(folder), detail::read_manifest(folder)).read();
}

} // namespace trireme

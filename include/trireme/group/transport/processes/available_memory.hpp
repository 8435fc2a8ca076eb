// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace trireme::processes {

namespace detail {

inline constexpr auto no_limit = std::numeric_limits<std::uint64_t>::max();

/// A number from a file of the kernel; `otherwise` if the file or the number is not there ("max").
inline std::uint64_t number_in(std::string const& path, char const* key, std::uint64_t otherwise) {
    std::ifstream file(path);
    std::string word;
    if (*key != 0)
        while (file >> word && word != key) {}
    std::uint64_t n = 0;
    return file >> n ? n : otherwise;
}

/// The files in which a version of control groups keeps a group's numbers.
struct group_files {
    char const *limit, *used, *cache; ///< the last: the key in memory.stat of what makes room when it is needed
};
inline constexpr group_files version_1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
inline constexpr group_files version_2 = {"/memory.max", "/memory.current", "inactive_file"};

/// Bytes that a control group has left for its processes.
inline std::uint64_t left_in_group(std::string const& folder, group_files const& f) {
    auto const most = number_in(folder + f.limit, "", no_limit);
    if (most == no_limit) return no_limit;
    auto const used = number_in(folder + f.used, "", 0), cache = number_in(folder + "/memory.stat", f.cache, 0);
    auto const taken = used > cache ? used - cache : 0;
    return most > taken ? most - taken : 0;
}

/// True if `word` is among `words`, which commas part.
inline bool is_among(std::string const& words, char const* word) {
    std::istringstream all(words);
    for (std::string one; std::getline(all, one, ',');)
        if (one == word) return true;
    return false;
}

/// The control group of this process that limits its memory, as /proc/self/cgroup names it: of version 1, or of 2.
inline std::string own_group(std::string const& root, bool first_version) {
    std::ifstream groups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) { // "4:cpu,memory:/path", "0::/path"
        auto const first = line.find(':');
        auto const second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        auto const controllers = line.substr(first + 1, second - first - 1);
        if (first_version ? is_among(controllers, "memory") : controllers.empty()) return line.substr(second + 1);
    }
    return "/";
}

/// The least that the control group `own` and those above it have left, where the part `mounted_part` of their tree
/// lies in the folder `mount`.
inline std::uint64_t left_in_groups(std::string const& mount, std::string const& mounted_part, std::string own,
                                    group_files const& f) {
    if (mounted_part != "/") { // a container may see its own group as the whole tree
        bool const inside =
            own.rfind(mounted_part, 0) == 0 && (own.size() == mounted_part.size() || own[mounted_part.size()] == '/');
        own = inside ? own.substr(mounted_part.size()) : "";
    }
    if (own.find("/..") != std::string::npos) own.clear(); // outside of what can be seen here
    while (!own.empty() && own.back() == '/') own.pop_back();
    auto left = left_in_group(mount + own, f);
    while (!own.empty()) {
        own.erase(own.rfind('/'));
        left = std::min(left, left_in_group(mount + own, f));
    }
    return left;
}

} // namespace detail

/// Bytes that this process may still take of the machine's memory: the least of what the kernel calls available and
/// what the control group that it runs in, and each of those above it, has left. Processes that ask at once all get the
/// same answer. `root`: where /proc and the control groups are, for tests.
inline bytes_t available_memory(std::string const& root = {}) {
    auto left = detail::number_in(root + "/proc/meminfo", "MemAvailable:", detail::no_limit / 1024) * 1024;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string skipped, mounted_part, mount, kind, source, options;
        words >> skipped >> skipped >> skipped >> mounted_part >> mount;
        while (words >> skipped && skipped != "-") {} // fields of which there may be any number
        if (!(words >> kind >> source >> options)) continue;
        bool const first_version = kind == "cgroup" && detail::is_among(options, "memory");
        if (!first_version && kind != "cgroup2") continue;
        left = std::min(left, detail::left_in_groups(root + mount, mounted_part, detail::own_group(root, first_version),
                                                     first_version ? detail::version_1 : detail::version_2));
    }
    return left;
}

} // namespace trireme::processes

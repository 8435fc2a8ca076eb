// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/data/sample_source.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::detail {

/// The digests of what samples hold: numbers, shapes, sizes; 0 of what a process does not have.
struct sample_digest {
    std::uint64_t inputs = 0, targets = 0;

    std::uint64_t both() const noexcept {
        std::uint64_t const all[] = {inputs, targets};
        return digest_of(std::as_bytes(std::span(all)));
    }
};

/// Digests of samples. The last two sets are remembered if they have a holder, so that an epoch and the test after it
/// read their data once, not once per epoch.
class sample_digests {
public:
    sample_digest const& of(sample_set const& samples) {
        for (auto const& e : known_)
            if (e.samples.same_as(samples)) return e.digest;
        auto& oldest = known_[next_++ % known_.size()];
        oldest = {samples, {of(samples.inputs(), samples.size()), of(samples.targets(), samples.size())}};
        return oldest.digest;
    }

private:
    static std::uint64_t of(sample_rows const& rows, std::size_t samples) {
        if (rows.data == nullptr) return 0;
        std::uint64_t about[max_rank + 6] = {static_cast<std::uint64_t>(rows.kind),
                                             rows.classes,
                                             std::bit_cast<std::uint64_t>(rows.scale),
                                             static_cast<std::uint64_t>(rows.ignored),
                                             rows.changes.crop_padding + (rows.changes.flip ? 65536u : 0u),
                                             static_cast<std::uint64_t>(rows.shape.rank)};
        for (int d = 0; d < rows.shape.rank; ++d) about[6 + d] = rows.shape.extent[d];
        auto digest = digest_of(std::as_bytes(std::span(about)));
        if (rows.standard != nullptr) digest = digest_of(std::as_bytes(std::span(&rows.standard->digest, 1)), digest);
        if (rows.places == nullptr && rows.stride == rows.bytes())
            return digest_of({rows.data, samples * rows.stride}, digest);
        for (std::size_t i = 0; i < samples; ++i) digest = digest_of({rows.of(i), rows.bytes()}, digest);
        return digest;
    }

    struct entry {
        sample_set samples; ///< keeps its holder, so that no other set takes its address
        sample_digest digest;
    };
    std::array<entry, 2> known_;
    std::size_t next_ = 0;
};

} // namespace trireme::detail

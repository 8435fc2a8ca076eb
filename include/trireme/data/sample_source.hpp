// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/no_label.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/core/words.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

/// Types of the numbers that samples consist of. Digests of samples contain the enumerators' values.
enum class number_kind : std::uint8_t { u8, u16, i8, i16, i32, i64, f32, f64, u32, u64 };

/// A type that samples' numbers may have.
template<class N>
concept sample_number =
    std::same_as<N, float> || std::same_as<N, double> || (std::integral<N> && !std::same_as<N, bool> && sizeof(N) <= 8);

template<sample_number N>
constexpr number_kind kind_of() noexcept {
    if constexpr (std::floating_point<N>)
        return sizeof(N) == 4 ? number_kind::f32 : number_kind::f64;
    else if constexpr (std::unsigned_integral<N>)
        return sizeof(N) == 1   ? number_kind::u8
               : sizeof(N) == 2 ? number_kind::u16
               : sizeof(N) == 4 ? number_kind::u32
                                : number_kind::u64;
    else
        return sizeof(N) == 1   ? number_kind::i8
               : sizeof(N) == 2 ? number_kind::i16
               : sizeof(N) == 4 ? number_kind::i32
                                : number_kind::i64;
}

/// f(N{}) for the type N of a kind.
template<class F>
constexpr decltype(auto) with_number_of(number_kind k, F&& f) {
    switch (k) {
    case number_kind::u8:
        return f(std::uint8_t{});
    case number_kind::u16:
        return f(std::uint16_t{});
    case number_kind::i8:
        return f(std::int8_t{});
    case number_kind::i16:
        return f(std::int16_t{});
    case number_kind::i32:
        return f(std::int32_t{});
    case number_kind::i64:
        return f(std::int64_t{});
    case number_kind::u32:
        return f(std::uint32_t{});
    case number_kind::u64:
        return f(std::uint64_t{});
    case number_kind::f32:
        return f(float{});
    default:
        return f(double{});
    }
}

/// Changes of images that are drawn anew for each step of a training; evaluations and predictions see them unchanged.
struct image_changes {
    std::uint16_t crop_padding = 0; ///< pixels of zeros around the image, of which a part of its size is cut out
    bool flip = false;              ///< true: left and right are exchanged, every second time

    constexpr bool any() const noexcept { return crop_padding != 0 || flip; }
    constexpr bool operator==(image_changes const&) const = default;
};

namespace detail {

/// Means and factors by which the numbers of a view are standardised whenever they are read: number x is seen as
/// float((x - mean) * factor) * after; see data/standardised_numbers.hpp.
struct number_standard {
    number_kind kind = number_kind::u8;      ///< type of the numbers that are stored
    double scale = 1;                        ///< their factor
    number_standard const* before = nullptr; ///< standard that is applied first, in place of kind and scale
    double const* means = nullptr;
    double const* factors = nullptr;
    std::size_t count = 0; ///< of means; each is that of as many numbers, side by side
    double after = 1;
    std::uint64_t digest = 0; ///< digest of all of the above

    constexpr number_kind stored() const noexcept { return before != nullptr ? before->stored() : kind; }
};

} // namespace detail

/// Inputs or targets of samples, a view: the numbers of sample i begin at of(i), side by side. With `standard` these
/// are numbers as a file stores them; gather_samples reads either kind.
struct sample_rows {
    std::byte const* data = nullptr;    ///< the numbers; null: there are none here
    number_kind kind = number_kind::u8; ///< type of the numbers
    trireme::shape shape = {};          ///< the shape of one sample
    std::size_t stride = 0;             ///< bytes from one sample's to the next one's; with `places` from row to row
    double scale = 1;                   ///< factor of each number: the product is computed with; 1 with `standard`
    std::size_t classes = 0;            ///< 0: values; else each number is a class in [0, classes)
    image_changes changes = {};         ///< changes of inputs of rank 3
    int ignored = no_label;     ///< a number that may stand for a class, of samples that losses are to leave out
    std::size_t beginnings = 1; ///< numbers that may be the first; each epoch of a training draws one of them
    bool mapped = false;        ///< true: the numbers lie in a mapped file; split and standardisation leave them there
    std::uint32_t const* places = nullptr;             ///< places of the samples among the rows; null: in order
    detail::number_standard const* standard = nullptr; ///< not null: gather_samples makes f32 of the numbers stored

    friend constexpr bool operator==(sample_rows const&, sample_rows const&) = default;
    constexpr std::size_t size() const noexcept { return shape.size(); } ///< numbers of one sample
    /// Bytes of one sample as they are stored.
    constexpr std::size_t bytes() const noexcept {
        return size() *
               with_number_of(standard != nullptr ? standard->stored() : kind, [](auto n) { return sizeof n; });
    }
    std::byte const* of(std::size_t sample) const noexcept {
        return data + (places == nullptr ? sample : places[sample]) * stride;
    }
    /// The rows of sample `first` and of those behind it.
    sample_rows behind(std::size_t first) const noexcept {
        auto rows = *this;
        if (places != nullptr)
            rows.places += first;
        else if (data != nullptr)
            rows.data = of(first);
        return rows;
    }
    /// The rows that begin so many numbers later.
    constexpr sample_rows from(std::size_t number) const noexcept {
        auto rows = *this;
        if (data != nullptr) rows.data += number * (bytes() / size());
        rows.beginnings = 1;
        return rows;
    }
};

namespace detail {

/// Inputs that are changed are images: others have no places to which their numbers could go.
TRIREME_COLD inline void check_image(shape const& of_input) {
    if (of_input.rank != 3)
        throw usage_error("the inputs of the samples are to be changed and have rank " + std::to_string(of_input.rank) +
                          ", and images have 3, (channels, height, width): pass their shape as "
                          "make_shape(1, 28, 28), or leave out the changes");
}

} // namespace detail

/// Numbers in memory as samples of one shape, one behind the other.
template<sample_number N>
sample_rows rows_of(N const* numbers, shape const& of_sample) noexcept {
    return {reinterpret_cast<std::byte const*>(numbers), kind_of<N>(), of_sample, of_sample.size() * sizeof(N)};
}

/// A source gives samples as rows of inputs and rows of targets, which stay where they are while a trainer works on
/// them. Classes lie below the number that the targets tell. In a trainer of several processes with stages, either all
/// of them have both, or the first stage has inputs alone, the last one targets alone, and those between neither.
///
///     std::size_t size() const;             // samples
///     sample_rows inputs() const;
///     sample_rows targets() const;
///     std::shared_ptr<void const> holder(); // if it has one: keeps the rows where they are, and as they are
template<class S>
concept sample_source = requires(S const& s) {
    { s.size() } -> std::convertible_to<std::size_t>;
    { s.inputs() } -> std::convertible_to<sample_rows>;
    { s.targets() } -> std::convertible_to<sample_rows>;
};

/// Training data: samples that a network learns from, and samples that test it, like `dataset`, of any sources.
/// `training_set{learnt}` has none that test it.
template<sample_source Train, sample_source Test = Train>
struct training_set {
    Train train; ///< samples that a network learns from
    Test test;   ///< samples that test it
};
template<class Train, class Test>
training_set(Train, Test) -> training_set<Train, Test>;

template<class... Where>
struct sample_source_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0099: these are no samples: a trainer takes labelled_images, samples_in_memory(numbers, "
                  "make_shape(...), labels, classes), or a type with size(), inputs() and targets(), which gives both "
                  "as sample_rows; of training data pass a part, as data.test");
};

/// Samples as a trainer sees them: those of any source. Copies nothing; holds what the source's holder holds.
class sample_set {
public:
    sample_set() = default;
    /// Errors: usage_error if inputs have changes and are no images.
    template<sample_source Source>
        requires(!std::same_as<Source, sample_set>)
    sample_set(Source const& s) : size_(s.size()), inputs_(s.inputs()), targets_(s.targets()) {
        if (inputs_.data != nullptr && inputs_.changes.any()) detail::check_image(inputs_.shape);
        if constexpr (requires { std::shared_ptr<void const>(s.holder()); }) holder_ = s.holder();
    }

    std::size_t size() const noexcept { return size_; }
    sample_rows const& inputs() const noexcept { return inputs_; }
    sample_rows const& targets() const noexcept { return targets_; }
    std::shared_ptr<void const> const& holder() const noexcept { return holder_; }
    /// True if numbers lie in a mapped file, and a view of them can hold it.
    bool stays_mapped() const noexcept { return holder_ != nullptr && (inputs_.mapped || targets_.mapped); }
    /// The inputs alone.
    sample_set without_targets() const {
        auto all = *this;
        all.targets_ = {};
        return all;
    }
    bool has_both() const noexcept { return inputs_.data != nullptr && targets_.data != nullptr; }

    /// The samples as epoch `epoch` of a training sees them: windows of tokens begin elsewhere in each, drawn from the
    /// seed. Others are the same in all epochs.
    sample_set of_epoch(std::uint64_t seed, std::uint32_t epoch) const noexcept {
        auto const draw = [&](sample_rows const& rows) {
            if (rows.beginnings <= 1) return rows;
            random_stream const random(seed, random_purpose::sample_order, epoch);
            return rows.from(random.below(0, static_cast<std::uint32_t>(rows.beginnings))); // the order draws from 2 on
        };
        auto all = *this;
        all.inputs_ = draw(inputs_);
        all.targets_ = draw(targets_);
        return all;
    }

    /// True if these are known to be the very same samples, seen in one way; compares no number.
    bool same_as(sample_set const& other) const noexcept {
        return holder_ != nullptr && holder_ == other.holder_ && size_ == other.size_ && inputs_ == other.inputs_ &&
               targets_ == other.targets_;
    }

private:
    std::size_t size_ = 0;
    sample_rows inputs_, targets_;
    std::shared_ptr<void const> holder_;
};

/// Training data whose tests may be left out.
template<sample_source Train>
struct training_set<Train, sample_set> {
    Train train;          ///< samples that a network learns from
    sample_set test = {}; ///< samples that test it; none at all
};
template<class Train>
training_set(Train) -> training_set<Train, sample_set>;

} // namespace trireme

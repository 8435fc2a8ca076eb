// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/trainer/stream_replica.hpp>
#include <trireme/trainer/stream_transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trireme {

/// The ranks of a process, each with its replica on an accelerator, and how a step is handed over to all of them. What
/// a device that does not answer may still be using. Nothing here waits.
template<class Model, accelerator Device, class Options, class Transport>
class stream_machine {
public:
    using T = typename Model::value_type;
    using network = typename Model::network;
    using replica = stream_replica<Model, Device, Options>;
    using stream = typename Device::stream;
    using event = typename Device::event;

    stream_machine(parallel_layout const& l, Options const& o, auto const& where) : transport(l, where), layout(l) {
        Device::use(transport.device_of(0));
        for (int i = 0; i < transport.local_ranks(); ++i) {
            int const rank = transport.first_rank() + i, device = transport.device_of(i);
            replicas.push_back(std::make_unique<replica>(device, l, rank, o.batch.samples));
            reduced_.emplace_back();
            for (std::size_t k = 0; k < l.reductions(); ++k) reduced_.back().emplace_back(device);
            fork_.emplace_back(device);
            exchanged_.emplace_back(device);
        }
        for (auto const& r : replicas) {
            compute.push_back(&r->compute);
            exchange_.push_back(&r->exchange);
            words.push_back(r->score_words());
        }
    }

    /// What is where in the memory of a rank.
    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = replica::memory_of(l, batch, rank);
        m.tables.bytes = Transport::table_bytes(l, rank, Model::arena_elements, sizeof(T));
        for (auto const& e : network::exchanges)
            m.tables.bytes += Transport::sum_bytes(l.replicas, rank, e.elements, sizeof(T));
        return m;
    }

    /// Collectives learn where what they add lies.
    void prepare() {
        std::vector<T*> gradients;
        for (auto const& r : replicas) gradients.push_back(r->gradients());
        transport.prepare(gradients, Model::arena_elements, sums_of_layers());
    }

    // ---- what a step is ----

    /// The whole step on the samples of a slot, over all ranks; begins and ends on the first rank's stream.
    void enqueue_step(int slot) {
        spread();
        if constexpr (network::whole_batch)
            enqueue_together(slot);
        else
            enqueue_one_by_one(slot);
        enqueue_reductions();
        enqueue_end(slot);
    }

    void capture() {
        for (int slot : {0, 1}) {
            compute[0]->begin_capture();
            try {
                enqueue_step(slot);
            } catch (...) { // as long as a capture goes on, nothing can be freed
                compute[0]->abandon_capture();
                throw;
            }
            graphs_[slot] = compute[0]->end_capture();
        }
    }
    void launch(int slot) { compute[0]->launch(graphs_[slot]); }

    /// Reductions begin while backward goes on, where nothing is added to a rank's gradients after it. Where layers add
    /// numbers over all devices as well, reductions come after them: ranks need one order of their collectives.
    bool overlaps() const noexcept {
        return layout.replicas > 1 && !layout.reproducible() && network::parameters != 0 && !network::whole_batch;
    }

    /// All gradients come at once, on `compute`.
    void gradients_complete() {
        for (std::size_t i = 0; overlaps() && i < replicas.size(); ++i)
            for (auto& e : reduced_[i]) compute[i]->record(e);
    }

    void enqueue_reductions() {
        if (layout.replicas == 1) {
            for (auto& r : replicas) r->end_shards();
        } else if (!overlaps()) {
            for (std::size_t k = layout.reductions(); k-- > 0;) transport.enqueue(k, compute);
        } else {
            for (std::size_t k = layout.reductions(); k-- > 0;) { // the last layers are the first to be complete
                for (std::size_t i = 0; i < replicas.size(); ++i) exchange_[i]->wait(reduced_[i][k]);
                transport.enqueue(k, exchange_);
            }
            for (std::size_t i = 0; i < replicas.size(); ++i) {
                exchange_[i]->record(exchanged_[i]);
                compute[i]->wait(exchanged_[i]);
            }
        }
    }

    /// The update; beside it the losses are shared, and copied to the host.
    void enqueue_end(int slot) {
        for (auto& r : replicas) {
            r->exchange.wait(r->scored);
            r->enqueue_update(slot);
        }
        transport.enqueue_scores(words, 2 * layout.shards(), exchange_);
        for (std::size_t i = 0; i < replicas.size(); ++i) {
            replicas[i]->enqueue_results(slot, *exchange_[i]);
            exchange_[i]->record(exchanged_[i]);
            compute[i]->wait(exchanged_[i]);
        }
        gather();
    }

    /// All ranks' streams go on where the first rank's is, and the other way round.
    void spread() {
        compute[0]->record(fork_[0]);
        for (std::size_t i = 1; i < compute.size(); ++i) compute[i]->wait(fork_[0]);
    }
    void gather() {
        for (std::size_t i = 1; i < compute.size(); ++i) {
            compute[i]->record(fork_[i]);
            compute[0]->wait(fork_[i]);
        }
    }

    int rank_of(replica const& r) const noexcept {
        for (std::size_t i = 0; i < replicas.size(); ++i)
            if (replicas[i].get() == &r) return transport.first_rank() + static_cast<int>(i);
        return transport.first_rank();
    }

    Transport transport;
    parallel_layout layout;
    std::vector<std::unique_ptr<replica>> replicas;
    std::vector<stream*> compute;
    std::vector<std::uint64_t*> words;
    int at_rank = 0; ///< whose work is being handed over, for messages

private:
    std::vector<layer_sum<T>> sums_of_layers() const {
        std::vector<layer_sum<T>> sums;
        for (auto const& e : network::exchanges) {
            sums.push_back({{}, e.elements});
            for (auto const& r : replicas) sums.back().numbers.push_back(r->kept() + e.first);
        }
        return sums;
    }

    /// The gradients of all ranks, layer by layer: a rank has one shard.
    void enqueue_together(int slot) {
        for (auto& r : replicas) {
            r->begin_step();
            r->begin_shard();
        }
        replica::enqueue_granules(replicas, team_, slot, [&](std::size_t i) { transport.enqueue_sum(i, compute); });
        for (auto& r : replicas) {
            r->join();
            r->end_shard(0);
        }
    }

    /// The gradients of one rank after the other.
    void enqueue_one_by_one(int slot) {
        for (std::size_t i = 0; i < replicas.size(); ++i) {
            auto& r = *replicas[i];
            at_rank = rank_of(r);
            r.begin_step();
            for (std::size_t k = 0; k < r.shards().size(); ++k) {
                r.begin_shard();
                if (overlaps()) { // the reductions come after `beside`, and `compute` after them
                    r.enqueue_granule(slot, k, k, [&](std::size_t layer) { gradients_of(i, layer); });
                } else {
                    r.enqueue_granule(slot, k, k);
                    r.join();
                }
                r.end_shard(k);
            }
        }
    }

    /// Layer `layer` of a rank has its gradients: so have all reductions that begin with one of its parameters.
    void gradients_of(std::size_t i, std::size_t layer) {
        auto const begin = network::row(layer).first_parameter;
        auto const end = begin + network::row(layer).description.parameter_elements();
        for (std::size_t k = 0; k < layout.reductions(); ++k) {
            auto const first = layout.reduced_by(k, Model::arena_elements).begin;
            if (first >= begin && first < end) replicas[i]->beside.record(reduced_[i][k]);
        }
    }

    std::vector<typename replica::context> team_;
    std::vector<stream*> exchange_;
    std::vector<std::vector<event>> reduced_; ///< by rank and reduction: its gradients are complete on the rank
    std::vector<event> fork_, exchanged_;
    typename Device::graph graphs_[2]; ///< gone before all that they use
};

} // namespace trireme

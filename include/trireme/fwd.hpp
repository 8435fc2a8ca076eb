// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Declarations of what the types of programs consist of, for headers that name a trainer and need nothing of it. The
/// arguments that have defaults (the shortcut of `residual`, the scope of `batch_norm`) get them by
/// trireme/trireme.hpp. Left out are names whose declaration is their definition: aliases (`gpt`, `best_of`), constants
/// (`without_bias`), concepts; and templates whose parameters need one of these (`training_set`) or a class (`named`).

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/core/percentage.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/isa.hpp>

#include <cstddef>

namespace trireme {

// ---- networks ----

template<std::size_t... N>
struct input;
template<class Input, class... Layers>
struct network;
struct pass_flops;

struct sigmoid;
struct hyperbolic_tangent;
struct relu;
struct gelu;
struct gelu_tanh;
struct flatten;
struct global_avg_pool2d;
struct per_shard;
struct synchronised;
template<class Scope>
struct batch_norm;
template<std::size_t N>
struct kernel;
template<std::size_t N>
struct padding;
template<std::size_t N>
struct stride;
template<std::size_t Channels, class Kernel, class... Options>
struct conv2d;
template<auto Share>
struct dropout;
template<auto Share>
struct activity_penalty;
template<std::size_t Outputs, auto... More>
struct linear;
template<std::size_t Vocabulary, std::size_t Width>
struct embedding;
struct learned_positions;
struct layer_norm;
struct rms_norm;
struct rms_norm_without_weight;
template<std::size_t N>
struct heads;
struct causal;
template<class Heads, class... Options>
struct attention;
template<std::size_t Side, class... Options>
struct avg_pool2d;
template<std::size_t Side, class... Options>
struct max_pool2d;
template<std::size_t Row>
struct tied;
struct gpt_sizes;

template<class... Layers>
struct sequential;
template<class Body, class Shortcut>
struct residual;
template<std::size_t N, class... Block>
struct repeat;

// ---- losses, optimizers, rates ----

struct cross_entropy;
template<class... Options>
struct cross_entropy_with;
template<auto Share>
struct label_smoothing;
template<class W>
struct class_weights;
template<int Label>
struct ignoring;
template<class Function>
struct value_loss_of;
struct output_meaning;
struct mean_squared_error;
struct binary_cross_entropy;

struct sgd;
struct sgd_momentum;
struct sgd_nesterov;
struct adam;
struct adamw;
struct rmsprop;
struct rmsprop_momentum;
struct adagrad;
struct rate_schedule;
struct step_rate;
struct cosine_rate;
struct one_cycle_rate;
struct warm_up_rate;
struct linear_scaling;

// ---- policies of trainers, and their arguments ----

template<class Mesh>
struct on;
template<class Way>
struct transport;
template<class Policy>
struct kernels;
template<class Dtype>
struct precision;
template<class Method>
struct initialise;
template<class Schedule, int MicroBatches>
struct pipeline;
template<class Cut>
struct stages_by;
template<class... Block>
struct recompute;
struct all;
template<class Strategy, class... ForTensors>
struct reduce_by;
template<class Order, int V>
struct reproducible;
template<class Place>
struct hold_weights;
struct clip_norm;
template<int N>
struct accumulate;
template<class... Which>
struct without_decay;
template<class Faults>
struct with_faults;

template<class Device, class... Axes>
struct mesh;
template<int N>
struct dp;
template<int N>
struct pp;
struct mesh_value;
struct mesh_group;
struct host;
struct gpu;
struct rehearsal;
struct peer;
struct nccl;
struct mpi;
struct shared_windows;
struct kernel_context;
template<class Kernels, class Function, class T>
class with_function;
class cuda_block_kernels;
inline namespace TRIREME_ISA {
struct portable;
struct reference;
} // namespace TRIREME_ISA
struct f32;
struct f64;
struct bf16;
struct xavier_uniform;
struct xavier_normal;
struct he_uniform;
struct he_normal;
struct gpipe;
struct one_f_one_b;
template<int C>
struct interleaved;
template<int C>
struct breadth_first;
struct zero_bubble_h1;
struct zero_bubble_h2;
struct zero_bubble_v;
template<int F, int B, int W, int Comm, int Frames>
struct zero_bubble_auto;
struct v_half;
struct v_min;
struct dual_pipe_v;
struct scheduled_work;
struct role_order;
struct balanced_by_flops;
template<std::size_t Samples, std::size_t PerParameter>
struct balanced_by_memory_of;
struct balanced_by_memory;
template<std::size_t... Row>
struct cut_before;
struct chosen_at_run_time;
template<class Which, class Strategy>
struct for_tensors;
template<std::size_t... Layer>
struct in_layer;
template<bytes_t Bytes>
struct of_at_least;
template<bytes_t Bytes>
struct of_at_most;
struct biases;
struct norms;
struct embeddings;
template<bytes_t Bytes>
struct bucket;
struct fixed_tree;
struct per_device;
struct once;

struct direct;
struct ring;
struct bidirectional_ring;
struct recursive_halving_doubling;
struct double_binary_tree;
struct binomial_tree;
struct chain;
struct dissemination;
template<class Inner, class Outer>
struct hierarchical;
template<class Wire, class Strategy>
struct compressed;
struct native;

// ---- training and predictions ----

inline namespace TRIREME_ISA {

template<class Network, class Loss, class Optimizer, class... Policies>
class trainer;
template<class Network, class... Policies>
class model;

} // namespace TRIREME_ISA

struct fit_options;
struct step_report;
struct progress_report;
struct epoch_report;
struct evaluation;
template<class... Observers>
class observers;
struct no_observer;
template<class T>
class predictions;
class confusion_matrix;
struct training_plan;
struct parallel_layout;
struct strategy_choice;
class schedule_choice;

class labelled_images;
struct dataset;
struct image_size;
struct idx_images;
struct image_changes;
struct sample_rows;
class samples_in_memory;
class owned_samples;
class augmented_samples;
class sample_set;
class shuffled_batches;
class standardisation;
class token_windows;
class csv_table;
struct csv_options;
struct csv_columns;
class npy_array;
struct split_counts;

} // namespace trireme

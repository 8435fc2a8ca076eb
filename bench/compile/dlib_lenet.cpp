// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The counterpart of examples/first.cpp in dlib: reads Fashion-MNIST, trains LeNet, prints the accuracy. Compiled, not
// run: this is about what a compiler needs for it.

#include <dlib/data_io.h>
#include <dlib/dnn.h>

#include <cstdio>

template<long Channels, int Padding, class Below>
using convolution = dlib::add_layer<dlib::con_<Channels, 5, 5, 1, 1, Padding, Padding>, Below>;
template<class Below>
using pool = dlib::avg_pool<2, 2, 2, 2, Below>;

using features =
    pool<dlib::sig<convolution<16, 0, pool<dlib::sig<convolution<6, 2, dlib::input<dlib::matrix<unsigned char>>>>>>>>;
using lenet = dlib::loss_multiclass_log<dlib::fc<10, dlib::sig<dlib::fc<84, dlib::sig<dlib::fc<120, features>>>>>>;

int main() {
    std::vector<dlib::matrix<unsigned char>> images, test_images;
    std::vector<unsigned long> labels, test_labels;
    dlib::load_mnist_dataset("/usr/share/datasets/fashion-mnist", images, labels, test_images, test_labels);
    lenet net;
    dlib::dnn_trainer<lenet> trainer(net);
    trainer.set_learning_rate(0.1);
    trainer.set_mini_batch_size(256);
    trainer.set_max_num_epochs(1);
    trainer.train(images, labels);
    auto const predicted = net(test_images);
    std::size_t right = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == test_labels[i] ? 1 : 0;
    std::printf("accuracy %.4f\n", static_cast<double>(right) / static_cast<double>(predicted.size()));
}

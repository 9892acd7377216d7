// The order of a pipeline's passes, by all of its stages at once, and how layers are dealt to them.
#include "train/pipeline.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

struct Times {
  bool ended = false;
  double seconds = 0;
  size_t passes = 0;  // different ones
};

// All stages, where a message takes no time: a pass begins when its stage is done with the one before, what it reads
// was made, and what its stage sent from the memory that it takes was received. `train`: backward passes, too.
Times simulate(int64_t ranks, int64_t chunks, int64_t batches, double forward_time, double backward_time, bool train) {
  using Name = std::tuple<bool, int64_t, int64_t>;  // forward; part of the layers; micro-batch
  struct Rank {
    model::Stage at;
    std::vector<PassStep> order;
    Flights flights;
    size_t next = 0;
    double free = 0;               // from then on
    std::optional<int64_t> slot;   // of the pass that waits
    std::map<int64_t, Name> sent;  // by slot: who receives
    std::deque<Name> gradients;    // likewise
  };
  const std::vector<MicroBatch> micro_batches(static_cast<size_t>(batches));
  const int64_t last = ranks * chunks - 1;
  std::vector<Rank> all;
  for (int64_t index = 0; index < ranks; ++index) {
    const model::Stage at{index, ranks, chunks};
    all.push_back({at, one_forward_one_backward(at, batches), Flights(at)});
    if (!train) std::erase_if(all.back().order, [](const PassStep& step) { return !step.forward; });
  }
  std::map<Name, double> begun, done;
  const auto take_next = [&](Rank& rank) {
    const auto& [forward, chunk, batch] = rank.order[rank.next];
    const MicroBatch& micro_batch = micro_batches[static_cast<size_t>(batch)];
    const int64_t part = chunk * ranks + rank.at.index;
    double begin = rank.free;
    const auto follows = [&](const std::map<Name, double>& times, const Name& name) {
      const auto found = times.find(name);
      if (found != times.end()) begin = std::max(begin, found->second);
      return found != times.end();
    };
    if (forward) {
      if (!rank.slot) rank.slot = rank.flights.begin(micro_batch, chunk, train);
      const auto sent = rank.sent.find(*rank.slot);
      if (sent != rank.sent.end() && !follows(begun, sent->second)) return false;
      if (part > 0 && !follows(done, {true, part - 1, batch})) return false;
      rank.sent.erase(*rank.slot);
      if (part < last) rank.sent[*rank.slot] = {true, part + 1, batch};
      rank.slot.reset();
    } else {
      if (!follows(done, part == last ? Name{true, last, batch} : Name{false, part + 1, batch})) return false;
      if (std::ssize(rank.gradients) >= most_waiting(rank.at)) {
        if (!follows(begun, rank.gradients.front())) return false;
        rank.gradients.pop_front();
      }
      if (part > 0) rank.gradients.push_back({false, part - 1, batch});
      EXPECT_EQ(rank.flights.end(chunk).batch, &micro_batch);
      // What the head keeps is one micro-batch's.
      if (part == last) {
        EXPECT_EQ(rank.order[rank.next - 1], (PassStep{true, chunk, batch}));
      }
    }
    begun[{forward, part, batch}] = begin;
    done[{forward, part, batch}] = rank.free = begin + (forward ? forward_time : backward_time);
    ++rank.next;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (Rank& rank : all) {
      while (rank.next < rank.order.size() && take_next(rank)) moved = true;
    }
  }
  Times times{.ended = true, .passes = done.size()};
  size_t passes = 0;
  for (const Rank& rank : all) {
    times.ended &= rank.next == rank.order.size();
    times.seconds = std::max(times.seconds, rank.free);
    passes += rank.order.size();
  }
  EXPECT_EQ(passes, static_cast<size_t>((train ? 2 : 1) * (last + 1) * batches));
  return times;
}

// Every micro-batch goes through every part once and back, in the memory that is there for it, and the stages stand
// still for (p - 1) / v micro-batches' time: arXiv 2104.04473, section 2.2.2.
TEST(Pipeline, StagesStandStillForAChunksTimeEach) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks) {
    for (int64_t chunks = 1; chunks <= (ranks == 1 ? 1 : 4); ++chunks) {
      for (int64_t batches = 0; batches <= 3 * ranks + 1; ++batches) {
        const testing::ScopedTrace trace(__FILE__, __LINE__,
                                         fmt::format("{} stages x {}, {} micro-batches", ranks, chunks, batches));
        for (const double backward : {1.0, 2.0}) {
          const Times times = simulate(ranks, chunks, batches, 1, backward, /*train=*/true);
          ASSERT_TRUE(times.ended);
          EXPECT_EQ(times.passes, static_cast<size_t>(2 * ranks * chunks * batches));
          if (batches == 0) continue;
          // Where some are left over, at most as long as if all were there.
          const int64_t whole = (batches + ranks - 1) / ranks * ranks;
          const auto limit = [&](int64_t count) {
            return (1 + backward) * static_cast<double>(count * chunks + ranks - 1);
          };
          EXPECT_LE(times.seconds, limit(whole));
          if (chunks == 1 || batches == whole) {
            EXPECT_EQ(times.seconds, limit(batches));
          }
        }
        EXPECT_TRUE(simulate(ranks, chunks, batches, 1, 1, /*train=*/false).ended);
      }
    }
  }
}

// As many as there are stages from it on; with chunks, of which each is so much less, a little more
// (arXiv 2205.05198, section 4.2.3: 1 + (p - 1) / (p v)).
TEST(Pipeline, EveryStageKeepsAsManyMicroBatchesAsFollowIt) {
  for (int64_t ranks = 1; ranks <= 5; ++ranks) {
    for (int64_t index = 0; index < ranks; ++index) EXPECT_EQ(most_waiting({index, ranks, 1}), ranks - index);
    for (int64_t chunks = 2; chunks <= 4; ++chunks)
      EXPECT_EQ(most_waiting({0, ranks, chunks}), ranks * chunks + ranks - 1);
  }
  for (const model::Stage& at : {model::Stage{0, 1, 1}, {0, 4, 1}, {2, 4, 1}, {0, 4, 2}, {3, 4, 2}, {1, 2, 3}}) {
    for (int64_t batches = 0; batches <= 16; ++batches) {
      int64_t waiting = 0, most = 0;
      for (const PassStep& step : one_forward_one_backward(at, batches)) {
        waiting += step.forward ? 1 : -1;
        most = std::max(most, waiting);
      }
      EXPECT_EQ(waiting, 0);
      EXPECT_LE(most, most_waiting(at));
      if (batches >= 3 * at.count) {
        EXPECT_EQ(most, most_waiting(at));
      }
    }
  }
}

// Layers are dealt without a gap, the stage with the head has fewer of them.
TEST(Pipeline, LayersAreDealtToStages) {
  model::ModelConfig shape = sample_config(/*tied=*/false);
  shape.num_layers = 12;
  shape.vocab_size = 600;  // the head: as much as two and a half layers
  for (const int64_t stages : {1, 2, 3, 4, 5, 12}) {
    int64_t next = 0, parameters = 0;
    for (int64_t index = 0; index < stages; ++index) {
      const model::ModelConfig stage = model::stage_of(shape, {index, stages});
      EXPECT_EQ(stage.layer_number(0), next);
      EXPECT_GE(stage.num_layers, 1);
      EXPECT_EQ(stage.embeds(), index == 0);
      EXPECT_EQ(stage.predicts(), index + 1 == stages);
      next += stage.num_layers;
      parameters += stage.parameter_count();
    }
    EXPECT_EQ(next, 12);
    EXPECT_EQ(parameters, shape.parameter_count());
  }
  EXPECT_EQ(model::stage_of(shape, {0, 2}).num_layers, 7);
  EXPECT_EQ(model::stage_of(shape, {1, 2}).num_layers, 5);
}

// Every part of the layers is one stage's, and named as the model has it.
TEST(Pipeline, LayersAreDealtToChunksOfStages) {
  model::ModelConfig shape = sample_config(/*tied=*/true);
  shape.num_layers = 11;
  for (const auto& [stages, chunks] : {std::pair{2, 2}, {2, 3}, {3, 2}, {3, 3}, {5, 2}}) {
    std::map<std::string, int64_t> owners;
    for (int64_t index = 0; index < stages; ++index) {
      const model::ModelConfig stage = model::stage_of(shape, {index, stages, chunks});
      EXPECT_EQ(stage.chunk_count(), chunks);
      EXPECT_EQ(stage.embeds(), index == 0);
      EXPECT_EQ(stage.predicts(), index + 1 == stages);
      EXPECT_EQ(stage.chunk_here(chunks - 1).end(), stage.num_layers);
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        EXPECT_EQ(stage.layer_number(stage.chunk_here(chunk).first), stage.chunks[static_cast<size_t>(chunk)].first);
      EXPECT_EQ(model::whole_of(stage, 1).num_layers, 11);
      for (const auto& [name, tensor] : model::Model(stage, at::kFloat, at::kMeta).named_parameters()) ++owners[name];
    }
    for (const auto& [name, tensor] : model::Model(shape, at::kFloat, at::kMeta).named_parameters())
      EXPECT_EQ(owners[name], name == model::kTable ? 2 : 1) << name;
  }
  EXPECT_EQ(model::stage_of(shape, {0, 2, 2}).chunks[1].first, 6);
}

}  // namespace
}  // namespace tritonforge::train

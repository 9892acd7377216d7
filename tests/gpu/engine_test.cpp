// The engine's GPU runner against the model in fp32 on the CPU, its options against each other, and ATen's path on the
// same device, which no test without a GPU reaches.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/gpu_runner.h"
#include "gpu/engine_fixture.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"

namespace tritonforge::engine {
namespace {

TEST_F(EngineOnGpu, LogProbsAreTheFp32ModelsWithinBf16) {
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    expect_near_the_reference(run(options(), family), family);
  }
}

// 200 greedy tokens of four prompts at once, Qwen2.5-Coder-0.5B's shape in fp32 with random weights: on the device by
// ATen's operations, since no own kernel computes in fp32. A text may leave the CPU's only where the CPU's two best
// tokens are a tie (kTie of each other in log-probability), and three of the four may not leave it at all.
TEST_F(EngineOnGpu, GreedyTokensInFp32AreTheCpus) {
  constexpr float kTie = 1e-4F;
  model::ModelConfig config;
  config.family = model::Family::kQwen2;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.num_layers = 24;
  config.num_heads = 14;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocab_size = 151936;
  config.max_position = 32768;
  config.tie_embeddings = config.attention_bias = true;
  config.qk_norm = false;
  auto on_cpu = std::make_unique<model::Model>(config, at::kFloat, at::kCPU);
  on_cpu->init_random(1, 0.05);
  auto on_gpu = gpu::copy_of(*on_cpu, at::kFloat, at::Device(at::kCUDA, 0));
  const auto said_by = [](std::unique_ptr<model::Model> model) {
    EngineOptions chosen = options();
    chosen.device = model->device().str();
    chosen.kv_cache_tokens = 4096;
    Core core(chosen, std::move(model), nullptr);
    std::vector<Sample> said(4);
    for (int64_t i = 0; i < 4; ++i) {
      Request request;
      request.id = std::to_string(i);
      request.prompt_ids = prompt_of(20 + 40 * i, i);
      request.sampling.max_new_tokens = 200;
      request.sampling.temperature = 0;
      request.log_probs.top = 2;
      request.on_output = [&said](Output whole) { said[std::stoull(whole.id)] = std::move(whole.samples[0]); };
      core.admit(std::move(core.arrival(std::move(request)).value()));
    }
    const at::InferenceMode inference;
    while (core.has_work()) core.step();
    EXPECT_EQ(core.stats().failed_steps, 0);
    return said;
  };
  const auto gpu = said_by(std::move(on_gpu)), cpu = said_by(std::move(on_cpu));
  int whole = 0;
  std::set<int64_t> different;
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(gpu[i].output_ids.size(), 200u) << gpu[i].abort_message;
    ASSERT_EQ(cpu[i].output_ids.size(), 200u) << cpu[i].abort_message;
    different.insert(cpu[i].output_ids.begin(), cpu[i].output_ids.end());
    const auto left = std::ranges::mismatch(gpu[i].output_ids, cpu[i].output_ids).in2 - cpu[i].output_ids.begin();
    for (size_t t = 0; t < static_cast<size_t>(left); ++t) EXPECT_NEAR(gpu[i].log_probs[t], cpu[i].log_probs[t], 1e-3);
    if (left == 200 && ++whole > 0) continue;
    const TokenLogProbs& best = cpu[i].top_log_probs[static_cast<size_t>(left)];
    fmt::print("text {} leaves the CPU's at token {}, where two are {:.2g} apart\n", i, left,
               best[0].log_prob - best[1].log_prob);
    EXPECT_LT(best[0].log_prob - best[1].log_prob, kTie) << i << " leaves the CPU's text at token " << left;
  }
  EXPECT_GE(whole, 3);
  EXPECT_GT(different.size(), 100u) << "the model says too little to compare";
}

// Graphs are launched from a shape's third step on; before the step is one copy to the device, after it one from it.
TEST_F(EngineOnGpu, ADecodeStepIsOneLaunch) {
  for (const auto& [graphs, fp8] : {std::pair{true, false}, {false, false}, {true, true}}) {
    at::manual_seed(5);
    in_fp8 = fp8;
    EngineOptions chosen = options();
    chosen.cuda_graphs = graphs;
    chosen.weight_dtype = fp8 ? WeightDtype::kFp8 : WeightDtype::kAuto;
    Core core(chosen, model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
    for (int64_t i = 0; i < 8; ++i) {
      Request request;
      request.id = std::to_string(i);
      request.prompt_ids = prompt_of(100, i);
      request.sampling.max_new_tokens = 60;
      core.admit(std::move(core.arrival(std::move(request)).value()));
    }
    const at::InferenceMode inference;
    for (int i = 0; i < 10; ++i) core.step();
    const EngineStats before = core.stats();
    for (int i = 0; i < 40; ++i) core.step();
    const EngineStats after = core.stats();
    EXPECT_EQ(after.steps - before.steps, 40);
    EXPECT_EQ(after.graph_steps - before.graph_steps, graphs ? 40 : 0);
    const int64_t nodes = (after.graph_nodes - before.graph_nodes) / 40;
    EXPECT_EQ(after.graph_nodes - before.graph_nodes, 40 * nodes) << "each is the same graph";
    if (graphs) {
      EXPECT_GE(nodes, 3 * 7) << "of three layers";
      EXPECT_LE(nodes, 3 * 20);
      fmt::print("8 decodes of three layers: {} kernels and copies, one launch\n", nodes);
    }
  }
}

TEST_F(EngineOnGpu, AtensPathIsAsNear) {
  EngineOptions aten = options();
  aten.gpu_kernels = false;
  expect_near_the_reference(run(aten), model::Family::kQwen3);
}

// The batches have the same shapes either way, so the same bits.
TEST_F(EngineOnGpu, GraphsAndStepsAheadChangeNoToken) {
  const auto both = run(options());
  for (const bool graphs : {false, true}) {
    for (const bool ahead : {false, true}) {
      EngineOptions other = options();
      other.cuda_graphs = graphs;
      other.step_ahead = ahead;
      EXPECT_EQ(equal_tokens(run(other), both), kRequests) << "graphs " << graphs << ", ahead " << ahead;
    }
  }
}

// One prompt after another, the third of a size class from a graph.
TEST_F(EngineOnGpu, AGraphOfAPromptChangesNoToken) {
  const auto tokens_of = [&](bool graphs) {
    at::manual_seed(5);
    EngineOptions chosen = options();
    chosen.cuda_graphs = graphs;
    chosen.reuse_prefixes = false;
    Core core(chosen, model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
    const at::InferenceMode inference;
    std::vector<std::vector<int64_t>> tokens;
    for (int64_t i = 0; i < 8; ++i) {
      Request request;
      request.prompt_ids = prompt_of(i % 2 == 0 ? 90 + i : 200 + i, i);
      request.sampling.max_new_tokens = 3;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.on_output = [&tokens](const Output& whole) { tokens.push_back(whole.samples[0].output_ids); };
      core.admit(std::move(core.arrival(std::move(request)).value()));
      while (core.has_work()) core.step();
    }
    EXPECT_EQ(core.stats().failed_steps, 0);
    return tokens;
  };
  const auto with = tokens_of(true);
  ASSERT_EQ(with.size(), 8u);
  EXPECT_EQ(with, tokens_of(false));
}

TEST_F(EngineOnGpu, ChunkedPromptsPreemptionAndReuseStayNear) {
  EngineOptions chunked = options();
  chunked.max_step_tokens = 64;
  expect_near_the_reference(run(chunked), model::Family::kQwen3);
  EngineOptions scarce = options();
  scarce.kv_cache_tokens = 1536;
  expect_near_the_reference(run(scarce), model::Family::kQwen3);
  EngineOptions no_reuse = options();
  no_reuse.reuse_prefixes = false;
  expect_near_the_reference(run(no_reuse), model::Family::kQwen3);
}

// An FP8 cache is the CPU's with the same rounding, within what bf16 changes: a few percent of all numbers are rounded
// to the other side of a step, which is less than what all roundings lose beside a cache of the model's own type (that
// the kernels round as the CPU does, number by number, is tested on its own). In small steps, in which prompts that the
// cache has most of are widened in several runs; with sequences put back; from graphs and without.
TEST_F(EngineOnGpu, AnFp8CacheIsTheCpusWithinBf16) {
  constexpr int64_t kTexts = 8, kNew = 40;
  const auto prompt = [](int64_t i) { return prompt_of(100 * (i % 4) + 20 + i, i % 5); };
  const auto answers = [](std::unique_ptr<model::Model> model, EngineOptions chosen, CacheDtype cache,
                          const std::function<Request(int64_t)>& request_of) {
    chosen.device = model->device().str();
    chosen.kv_cache_dtype = cache;
    Core core(chosen, std::move(model), nullptr);
    std::vector<Output> outputs;
    const at::InferenceMode inference;
    for (int round = 0; round < 2; ++round) {  // the second finds most of each prompt in the cache
      outputs.assign(kTexts, {});
      for (int64_t i = 0; i < kTexts; ++i) {
        Request request = request_of(i);
        request.id = std::to_string(i);
        request.on_output = [&outputs](Output part) { outputs[std::stoull(part.id)].append(std::move(part)); };
        core.admit(std::move(core.arrival(std::move(request)).value()));
      }
      while (core.has_work()) core.step();
    }
    EXPECT_EQ(core.stats().failed_steps, 0);
    return outputs;
  };
  EngineOptions chunked = options(), scarce = options();
  chunked.max_step_tokens = 64;
  chunked.max_context = 512;
  scarce.kv_cache_tokens = 1536;
  scarce.cuda_graphs = false;
  for (const EngineOptions& chosen : {options(), chunked, scarce}) {
    at::manual_seed(5);
    const auto said = answers(model(at::kBFloat16, at::Device(at::kCUDA, 0)), chosen, CacheDtype::kFp8, [&](int64_t i) {
      Request request;
      request.prompt_ids = prompt(i);
      request.sampling.max_new_tokens = kNew;
      request.sampling.seed = static_cast<uint64_t>(i);
      return request;
    });
    const auto scored = [&](CacheDtype cache) {
      at::manual_seed(5);
      return answers(model(at::kFloat, at::kCPU), options(), cache, [&](int64_t i) {
        Request request;
        request.prompt_ids = prompt(i);
        request.log_probs.prompt_from = std::ssize(request.prompt_ids);
        const auto& tokens = said[static_cast<size_t>(i)].samples[0].output_ids;
        request.prompt_ids.insert(request.prompt_ids.end(), tokens.begin(), tokens.end());
        request.sampling.max_new_tokens = 1;
        return request;
      });
    };
    const auto rounded = scored(CacheDtype::kFp8), exact = scored(CacheDtype::kAuto);
    double worst = 0, total = 0, loss = 0;
    for (size_t i = 0; i < kTexts; ++i) {
      const Sample& sample = said[i].samples[0];
      ASSERT_EQ(std::ssize(sample.output_ids), kNew) << sample.abort_message;
      ASSERT_EQ(std::ssize(rounded[i].prompt.log_probs), kNew);
      for (size_t t = 0; t < kNew; ++t) {
        const double off = std::abs(sample.log_probs[t] - rounded[i].prompt.log_probs[t]);
        worst = std::max(worst, off);
        total += off;
        loss += std::abs(exact[i].prompt.log_probs[t] - rounded[i].prompt.log_probs[t]);
      }
    }
    fmt::print("log-probs against the CPU's FP8 in fp32: mean {:.5f}, worst {:.5f}; FP8 loses {:.5f}\n",
               total / (kTexts * kNew), worst, loss / (kTexts * kNew));
    EXPECT_LT(total, loss);
    EXPECT_LT(worst, 0.3);
  }
}

// Weights in FP8 against the fp32 model of what they stand for: as near as those of bf16.
TEST_F(EngineOnGpu, WeightsInFp8AreTheCpusWithinBf16) {
  in_fp8 = true;
  EngineOptions fp8 = options();
  fp8.weight_dtype = WeightDtype::kFp8;
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2})
    expect_near_the_reference(run(fp8, family), family);
  const auto untuned = run(fp8);
  EngineOptions no_graphs = fp8, no_steps_ahead = fp8;
  no_graphs.cuda_graphs = false;
  no_steps_ahead.step_ahead = false;
  EXPECT_EQ(equal_tokens(run(no_graphs), untuned), kRequests);
  EXPECT_EQ(equal_tokens(run(no_steps_ahead), untuned), kRequests);
  fp8.tune_gemms = true;
  expect_near_the_reference(run(fp8), model::Family::kQwen3);
  fp8.gpu_kernels = false;
  expect_near_the_reference(run(fp8), model::Family::kQwen3);
}

// What comes to the engine is what is published, its matrices are rounded on the GPU to the CPU's bytes, asleep or not.
TEST_F(EngineOnGpu, WeightsInFp8AreRoundedAsOnTheCpu) {
  in_fp8 = true;
  EngineOptions fp8 = options();
  fp8.weight_dtype = WeightDtype::kFp8;
  Core core(fp8, model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
  const TemporaryFolder folder("fp8");
  for (const uint64_t seed : {7, 8}) {
    const auto source = gpu::small_model(seed, at::kCPU);
    const fs::path file = folder.path() / fmt::format("{}.safetensors", seed);
    const auto published = model::save_safetensors(source->named_parameters(), file, {});
    if (seed == 8) core.release_memory();
    const auto staged = weights::stage_weights(core.parts(), file, published);
    EXPECT_FALSE(staged.uploads.empty());
    EXPECT_EQ(core.install(staged, static_cast<int64_t>(seed)).checksums, published);
    core.resume_memory();
    const auto rounded = gpu::fp8_copy_of(*source, at::kCPU);
    const auto found = core.parts().tensors(), wanted = model::Parts(*rounded).tensors();
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(at::equal(found[i].whole().cpu(), wanted[i].whole())) << wanted[i].name;
  }
}

TEST_F(EngineOnGpu, TunedProductsStayNear) {
  EngineOptions tuned = options();
  tuned.tune_gemms = true;
  expect_near_the_reference(run(tuned), model::Family::kQwen3);
}

// Twelve samples of one long prompt: read once for eight and once for four, or by each for itself, the
// log-probabilities are the fp32 model's within bf16; and the first decode draws the same.
TEST_F(EngineOnGpu, ASharedPrefixStaysNear) {
  const auto sampled = [](bool shared, bool graphs) {
    at::manual_seed(5);
    EngineOptions o = options();
    o.shared_prefix = shared;
    o.shared_prefix_mib = 0;
    o.cuda_graphs = graphs;
    Core core(o, model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
    Output whole;
    Request request;
    request.id = "group";
    request.prompt_ids = prompt_of(700, 3);
    request.sampling.n = 12;
    request.sampling.max_new_tokens = 50;
    request.sampling.seed = 9;
    request.on_output = [&](Output part) { whole.append(std::move(part)); };
    core.admit(std::move(core.arrival(std::move(request)).value()));
    const at::InferenceMode inference;
    while (core.has_work()) core.step();
    EXPECT_EQ(core.stats().failed_steps, 0);
    return whole;
  };
  at::manual_seed(5);
  const auto reference = model(at::kFloat, at::kCPU);
  const auto worst_of = [&](const Output& output) {
    double worst = 0;
    for (const Sample& sample : output.samples) {
      const at::Tensor log_probs = gpu::log_probs_of(*reference, prompt_of(700, 3), sample.output_ids);
      for (int64_t t = 0; t < std::ssize(sample.output_ids); ++t) {
        const auto expected = log_probs[t][sample.output_ids[static_cast<size_t>(t)]].item<float>();
        worst = std::max<double>(worst, std::abs(expected - sample.log_probs[static_cast<size_t>(t)]));
      }
    }
    return worst;
  };
  const Output on = sampled(true, true), off = sampled(false, true), no_graph = sampled(true, false);
  ASSERT_EQ(on.samples.size(), 12u);
  EXPECT_LT(worst_of(on), 0.25);
  EXPECT_LT(worst_of(off), 0.25);
  int64_t same_draw = 0;
  bool rounding_differs = false;
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(on.samples[i].output_ids, no_graph.samples[i].output_ids);
    if (on.samples[i].output_ids[1] == off.samples[i].output_ids[1]) {
      ++same_draw;
      EXPECT_NEAR(on.samples[i].log_probs[1], off.samples[i].log_probs[1], 0.1) << "the first decode of " << i;
    }
    rounding_differs = rounding_differs || on.samples[i].log_probs != off.samples[i].log_probs;
  }
  EXPECT_GE(same_draw, 11);
  EXPECT_TRUE(rounding_differs) << "no prefix was shared";
}

// Drafts are verified in a batch of more rows, whose bf16 products round otherwise: each token's log-probability is
// the fp32 model's within bf16, as without; and where the shapes are the same, so are the bits.
TEST_F(EngineOnGpu, VerifiedDraftsStayNear) {
  repeats_itself = true;
  EngineOptions drafted = options();
  drafted.draft_tokens = 6;
  drafted.max_running = 64;
  EngineStats stats;
  const auto verified = run(drafted, model::Family::kQwen3, &stats);
  EXPECT_GT(stats.accepted_drafts, 200);
  fmt::print("{} of {} drafts were drawn\n", stats.accepted_drafts, stats.drafted_tokens);
  expect_near_the_reference(verified, model::Family::kQwen3);
  drafted.cuda_graphs = false;
  EXPECT_EQ(equal_tokens(run(drafted), verified), kRequests);
}

// Penalties, biases, forbidden tokens, log-probabilities of other tokens and of prompts, beside requests that ask for
// nothing: each is the fp32 model's on the CPU within bf16, edited here by the documented formula.
TEST_F(EngineOnGpu, LogitsAreReadAndEditedAsOnTheCpu) {
  const auto request_of = [](int64_t i) {
    Request request;
    request.id = std::to_string(i);
    request.prompt_ids = prompt_of(i == 0 ? 1 : 30 * i, i);
    SamplingParams& sampling = request.sampling;
    sampling.max_new_tokens = 40;
    sampling.seed = static_cast<uint64_t>(i);
    sampling.temperature = i % 3 == 0 ? 0 : 0.7;
    if (i % 2 == 0) return request;  // asks for nothing
    sampling.frequency_penalty = 0.4;
    sampling.presence_penalty = 0.3;
    sampling.repetition_penalty = 1.3;
    sampling.logit_bias = {{3, 5.0}, {4, -100.0}};
    sampling.min_new_tokens = 40;
    sampling.stop_token_ids = {8, 3};
    if (i % 4 == 1) sampling.top_p = 0.95;
    request.log_probs = {.top = 5, .ids = {3, 4, 8}, .prompt_from = i};
    return request;
  };
  constexpr int64_t kCount = 12;
  const auto run_all = [&](int64_t step_tokens, bool graphs) {
    EngineOptions chosen = options();
    chosen.max_step_tokens = step_tokens;
    chosen.cuda_graphs = graphs;
    at::manual_seed(5);
    Core core(chosen, model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
    const at::InferenceMode inference;
    std::map<std::string, Output> outputs;
    for (int64_t i = 0; i < kCount; ++i) {
      Request request = request_of(i);
      request.on_output = [&outputs](Output part) {
        const std::string id = part.id;
        outputs[id].append(std::move(part));
      };
      core.admit(std::move(core.arrival(std::move(request)).value()));
    }
    while (core.has_work()) core.step();
    EXPECT_EQ(core.stats().failed_steps, 0);
    // With rows that ask in nearly every decode: up to the logits they are one launch as well.
    const int64_t one_launch = core.stats().graph_steps;
    EXPECT_TRUE(graphs ? one_launch > 10 : one_launch == 0) << one_launch;
    return outputs;
  };
  at::manual_seed(5);
  const auto reference = model(at::kFloat, at::kCPU);
  const at::NoGradGuard no_grad;
  for (const int64_t step_tokens : {0, 64}) {
    const auto outputs = run_all(step_tokens, true), without = run_all(step_tokens, false);
    for (const auto& [id, output] : outputs) {
      EXPECT_EQ(output.samples[0].output_ids, without.at(id).samples[0].output_ids) << id;
      EXPECT_EQ(output.samples[0].log_probs, without.at(id).samples[0].log_probs) << id;
    }

    double worst = 0, total = 0;
    int64_t compared = 0;
    const auto compare = [&](double found, double expected) {
      const double off = std::abs(found - expected);
      worst = std::max(worst, off);
      total += off;
      ++compared;
    };
    for (int64_t i = 0; i < kCount; ++i) {
      const Request request = request_of(i);
      const Output& output = outputs.at(request.id);
      const Sample& sample = output.samples[0];
      ASSERT_EQ(sample.output_ids.size(), 40u) << i << " " << sample.abort_message;
      const auto& prompt = request.prompt_ids;
      std::vector<int64_t> ids = prompt;
      ids.insert(ids.end(), sample.output_ids.begin(), sample.output_ids.end());
      const int64_t n = std::ssize(ids);
      const at::Tensor rows = reference
                                  ->logits(reference->forward(at::tensor(ids), at::arange(n),
                                                              model::packed_attention({0, n})))
                                  .to(at::kDouble);
      const bool asks = request.log_probs.any();
      ASSERT_EQ(std::ssize(output.prompt.log_probs), asks ? std::ssize(prompt) - i : 0);
      for (int64_t p = i; asks && p < std::ssize(prompt); ++p) {
        const at::Tensor log_probs = at::log_softmax(rows[p - 1], 0);
        const auto place = static_cast<size_t>(p - i);
        compare(output.prompt.log_probs[place], log_probs[ids[static_cast<size_t>(p)]].item<double>());
        ASSERT_EQ(output.prompt.top[place].size(), 5u);
        compare(output.prompt.top[place][0].log_prob, log_probs.max().item<double>());
        compare(output.prompt.ids[place][2].log_prob, log_probs[8].item<double>());
      }
      std::map<int64_t, int> counts;
      for (size_t t = 0; t < 40; ++t) {
        const at::Tensor row = rows[std::ssize(prompt) - 1 + static_cast<int64_t>(t)].clone();
        auto* logits = row.mutable_data_ptr<double>();
        for (const auto& [token, count] : counts) {
          logits[token] = logits[token] > 0 ? logits[token] / 1.3 : logits[token] * 1.3;
          logits[token] -= 0.4 * count + 0.3;
        }
        if (asks) {
          logits[3] = logits[8] = -INFINITY;
          logits[4] -= 100;
        }
        const double temperature = request.sampling.temperature;
        const at::Tensor log_probs = at::log_softmax(row / (temperature == 0 ? 1.0 : temperature), 0);
        const int64_t token = sample.output_ids[t];
        compare(sample.log_probs[t], log_probs[token].item<double>());
        if (!asks) continue;
        ++counts[token];
        EXPECT_TRUE(token != 3 && token != 4 && token != 8) << i << " " << t;
        ASSERT_EQ(sample.top_log_probs[t].size(), 5u);
        for (const auto& [other, log_prob] : sample.top_log_probs[t]) {
          compare(log_prob, log_probs[other].item<double>());
          if (other == token) {
            EXPECT_EQ(log_prob, sample.log_probs[t]);
          }
        }
        EXPECT_TRUE(std::isinf(sample.ids_log_probs[t][0].log_prob));
      }
    }
    EXPECT_LT(total / static_cast<double>(compared), 0.02);
    EXPECT_LT(worst, 0.25);
    fmt::print("{} log-probs against fp32: mean {:.5f}, worst {:.5f}\n", compared,
               total / static_cast<double>(compared), worst);
  }
}

TEST_F(EngineOnGpu, NewWeightsAndReleasedMemoryActBetweenSteps) {
  at::manual_seed(5);
  Core core(options(), model(at::kBFloat16, at::Device(at::kCUDA, 0)), nullptr);
  Output whole;
  Request request;
  request.id = "a";
  request.prompt_ids = prompt_of(100, 1);
  request.sampling.max_new_tokens = 60;
  request.sampling.temperature = 0;
  request.on_output = [&](Output part) { whole.append(std::move(part)); };
  core.admit(std::move(core.arrival(std::move(request)).value()));
  const at::InferenceMode inference;
  for (int step = 0; core.has_work(); ++step) {
    core.step();
    if (step == 20) {
      core.release_memory();
      core.resume_memory();
    }
    if (step == 40) {
      StagedWeights staged;
      for (const auto& [name, tensor] : core.model().named_parameters()) staged.copies.emplace_back(tensor, tensor * 1);
      core.install(staged, 3);
    }
  }
  EXPECT_EQ(whole.samples[0].output_ids.size(), 60u);
  EXPECT_EQ(whole.samples[0].weight_versions.front(), 0);
  EXPECT_EQ(whole.samples[0].weight_versions.back(), 3);
  EXPECT_TRUE(std::ranges::is_sorted(whole.samples[0].weight_versions));
}

}  // namespace
}  // namespace tritonforge::engine

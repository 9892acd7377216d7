#include "engine/report.h"

namespace tritonforge::engine {

net::Response health_report(const EngineStats& stats, const std::string& fault, bool closing) {
  net::Colour colour = net::Colour::kGreen;
  std::string detail = fmt::format("{} running, {} waiting", stats.running, stats.waiting);
  if (closing) detail = "shutting down";
  else if (stats.paused) detail += ", paused";
  else if (stats.draining) detail += ", new weights wait for what runs";
  else if (stats.memory_released()) detail += ", its memory released";
  else if (stats.weight_version < 0) detail += ", without weights since an update that went wrong";
  if (closing || stats.waiting > stats.running * 4 + 256 || stats.consecutive_failures > 0 ||
      stats.weight_version < 0) {
    colour = net::Colour::kYellow;
  }
  if (!fault.empty()) {
    colour = net::Colour::kRed;
    detail = fault;
  }
  return net::health_reply(colour, "engine", detail);
}

Json server_report(const EngineInfo& info, const EngineStats& s) {
  return {{"version", TF_VERSION},
          {"model_path", info.model_path},
          {"device", info.device},
          {"tp_size", info.tp},
          {"dtype", info.dtype},
          {"kv_cache_dtype", info.kv_cache_dtype},
          {"weight_dtype", info.weight_dtype},
          {"parameters", info.parameters},
          {"max_context", info.max_context},
          {"kv_cache_tokens", info.kv_cache_tokens},
          {"weight_version", std::to_string(s.weight_version)},
          {"paused", s.paused},
          {"memory_released", s.memory_released()},
          {"cache_released", s.cache_released},
          {"weights_released", s.weights_released},
          {"memory",
           {{"weights", info.memory.weights},
            {"kv_cache", info.memory.cache},
            {"graph_pool", info.memory.graphs},
            {"workspace", info.memory.workspace},
            {"left", info.memory.left},
            {"on_host", info.memory.host}}},
          {"running", s.running},
          {"waiting", s.waiting},
          {"kv_tokens_free", s.kv_tokens_free},
          {"prefix_blocks", s.prefix_blocks},
          {"host_blocks", s.host_blocks},
          {"blocks_to_host", s.blocks_to_host},
          {"blocks_from_host", s.blocks_from_host},
          {"steps", s.steps},
          {"prompt_tokens", s.prompt_tokens},
          {"generated_tokens", s.generated_tokens},
          {"cached_tokens", s.cached_tokens},
          {"preemptions", s.preemptions},
          {"drafted_tokens", s.drafted_tokens},
          {"accepted_drafts", s.accepted_drafts},
          {"graph_steps", s.graph_steps},
          {"graph_nodes", s.graph_nodes},
          {"failed_steps", s.failed_steps},
          {"finished_requests", s.finished_requests},
          {"aborted_requests", s.aborted_requests},
          {"step_seconds", s.step_seconds},
          {"stage_seconds",
           {{"plan", s.stages.plan},
            {"fill", s.stages.fill},
            {"forward", s.stages.forward},
            {"draw", s.stages.draw},
            {"deliver", s.stages.deliver}}}};
}

net::Response metrics_report(const EngineStats& s) {
  net::Metrics metrics("engine", {{"running_sequences", "sequences in the last step"},
                                  {"waiting_sequences", "sequences that wait for a place in a step"},
                                  {"kv_tokens_free", "tokens that the KV cache could still take"},
                                  {"kv_tokens_total", "tokens that the KV cache holds at most"},
                                  {"weight_version", "version of the weights"},
                                  {"paused", "1 while generation is paused"},
                                  {"steps_total", "forward passes"},
                                  {"step_seconds_total", "seconds in them"},
                                  {"stage_seconds_total", "seconds of the engine's thread in each part of its steps"},
                                  {"prompt_tokens_total", "prompt tokens computed"},
                                  {"generated_tokens_total", "tokens sampled"},
                                  {"cached_tokens_total", "prompt tokens taken from the prefix cache"},
                                  {"preemptions_total", "sequences put back for want of KV cache"},
                                  {"blocks_to_host_total", "blocks of the KV cache that left for the host's memory"},
                                  {"blocks_from_host_total", "blocks of the KV cache that came back from there"},
                                  {"drafted_tokens_total", "draft tokens that were verified"},
                                  {"accepted_drafts_total", "draft tokens that were drawn"},
                                  {"graph_steps_total", "forward passes that were one launch of a CUDA graph"},
                                  {"graph_nodes_total", "kernels and copies in those graphs"},
                                  {"failed_steps_total", "steps that failed"},
                                  {"requests_total", "requests that ended, by how"},
                                  {"queue_time_seconds", "from a request's arrival until it was first in a step"},
                                  {"time_to_first_token_seconds", "from a request's arrival to its first token"},
                                  {"request_time_seconds", "from a request's arrival to its end"},
                                  {"time_per_token_seconds", "of a sample after its first token, a token"}});
  const auto set = [&](const char* name, auto value) { metrics.set(name, static_cast<double>(value)); };
  set("running_sequences", s.running);
  set("waiting_sequences", s.waiting);
  set("kv_tokens_free", s.kv_tokens_free);
  set("kv_tokens_total", s.kv_tokens_total);
  set("weight_version", s.weight_version);
  set("paused", s.paused);
  set("steps_total", s.steps);
  set("step_seconds_total", s.step_seconds);
  set("stage_seconds_total{stage=\"plan\"}", s.stages.plan);
  set("stage_seconds_total{stage=\"fill\"}", s.stages.fill);
  set("stage_seconds_total{stage=\"forward\"}", s.stages.forward);
  set("stage_seconds_total{stage=\"draw\"}", s.stages.draw);
  set("stage_seconds_total{stage=\"deliver\"}", s.stages.deliver);
  set("prompt_tokens_total", s.prompt_tokens);
  set("generated_tokens_total", s.generated_tokens);
  set("cached_tokens_total", s.cached_tokens);
  set("preemptions_total", s.preemptions);
  set("blocks_to_host_total", s.blocks_to_host);
  set("blocks_from_host_total", s.blocks_from_host);
  set("drafted_tokens_total", s.drafted_tokens);
  set("accepted_drafts_total", s.accepted_drafts);
  set("graph_steps_total", s.graph_steps);
  set("graph_nodes_total", s.graph_nodes);
  set("failed_steps_total", s.failed_steps);
  set("requests_total{end=\"finished\"}", s.finished_requests);
  set("requests_total{end=\"aborted\"}", s.aborted_requests);
  metrics.set("queue_time_seconds", s.queue_time);
  metrics.set("time_to_first_token_seconds", s.first_token_time);
  metrics.set("request_time_seconds", s.request_time);
  metrics.set("time_per_token_seconds", s.token_time);
  return metrics.reply();
}

std::string LoadReport::line(const EngineStats& now) {
  const double seconds = now.step_seconds - seconds_;
  if (seconds < 1) return "";
  const double generated = static_cast<double>(now.generated_tokens - generated_) / seconds;
  const double prompt = static_cast<double>(now.prompt_tokens - prompt_) / seconds;
  const double used = 1 - static_cast<double>(now.kv_tokens_free) / static_cast<double>(now.kv_tokens_total);
  seconds_ = now.step_seconds;
  generated_ = now.generated_tokens;
  prompt_ = now.prompt_tokens;
  return fmt::format("{} running, {} waiting; {:.0f} tokens/s generated, {:.0f} of prompts; KV cache {:.0f} % used",
                     now.running, now.waiting, generated, prompt, 100 * used);
}

}  // namespace tritonforge::engine

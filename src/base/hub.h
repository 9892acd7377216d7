#pragma once
// Names on the Hugging Face hub, and what of them is on this machine: the cache of its own library (HF_HUB_CACHE, else
// HF_HOME/hub, else ~/.cache/huggingface/hub), which `tritonforge model pull` fills.
#include <optional>
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

struct HubName {
  bool dataset = false;
  std::string id;                 // "owner/name"
  std::string revision = "main";  // branch, tag or commit
  std::string file;               // below it; "" = all of it
  std::string endpoint;           // of a URL of another server than huggingface.co; "" = HF_ENDPOINT's

  std::string text() const;  // as parse_hub_name reads it, without the endpoint
};
// "owner/name", "owner/name@revision", "datasets/owner/name@revision/file": the names of the hub's own file system; or
// a URL of one: https://huggingface.co/owner/name[/tree|blob|resolve/revision[/file]]. Nothing where it is neither.
std::optional<HubName> parse_hub_name(const std::string& text);

fs::path hub_cache();
// The folder or file in the cache, with a name's newest download of its revision; nothing where it is not there.
std::optional<fs::path> cached(const HubName& name);

struct CachedRepository {
  HubName name;  // revision: the branches and tags that were asked for, "main"
  fs::path snapshot;
  uint64_t bytes = 0;
  bool complete = true;  // no download of it was cut off
};
std::vector<CachedRepository> cached_repositories();

// What is to be added to "no such file or folder: X": where X could be such a name, how to fetch it, else the nearest
// path.
std::string pull_hint(const std::string& text);

}  // namespace tritonforge

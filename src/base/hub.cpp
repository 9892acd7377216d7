#include "base/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "base/nearest.h"

namespace tritonforge {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find('/', at), text.size());
    parts.push_back(text.substr(at, next - at));
    at = next + 1;
  }
  return parts;
}

// Of a repository's name, a revision or a file: no way out of the cache's folder.
bool plain(const std::string& part) {
  const bool letters = std::ranges::all_of(
      part, [](unsigned char c) { return std::isalnum(c) || std::strchr("._-+=", c) != nullptr; });
  return letters && !part.empty() && part != "." && part != "..";
}

std::string joined(std::vector<std::string>::const_iterator begin, std::vector<std::string>::const_iterator end) {
  std::string text;
  for (; begin != end; ++begin) text += (text.empty() ? "" : "/") + *begin;
  return text;
}

const char* given(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string without_newline(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// models--owner--name, and back.
std::string folder_of(const HubName& name) {
  std::string id = name.id;
  id.replace(id.find('/'), 1, "--");
  return (name.dataset ? "datasets--" : "models--") + id;
}

std::optional<HubName> name_of_folder(const std::string& folder) {
  HubName name;
  name.dataset = folder.starts_with("datasets--");
  if (!name.dataset && !folder.starts_with("models--")) return std::nullopt;
  name.id = folder.substr(folder.find("--") + 2);
  const size_t between = name.id.find("--");
  if (between == std::string::npos) return std::nullopt;
  name.id.replace(between, 2, "/");
  return name;
}

}  // namespace

std::string HubName::text() const {
  return (dataset ? "datasets/" : "") + id + (revision == "main" ? "" : "@" + revision) +
         (file.empty() ? "" : "/" + file);
}

std::optional<HubName> parse_hub_name(const std::string& text) {
  HubName name;
  std::string rest = text;
  const size_t scheme = text.find("://");
  const bool url = scheme != std::string::npos;
  if (url) {
    if (!text.starts_with("https://") && !text.starts_with("http://")) return std::nullopt;
    const size_t path = text.find('/', scheme + 3);
    if (path == std::string::npos) return std::nullopt;
    name.endpoint = text.substr(0, path);
    if (name.endpoint == "https://huggingface.co") name.endpoint.clear();
    rest = text.substr(path + 1, std::min(text.find_first_of("?#"), text.size()) - path - 1);
    while (rest.ends_with('/')) rest.pop_back();
  }
  auto parts = split(rest);
  if (!parts.empty() && (name.dataset = parts[0] == "datasets")) parts.erase(parts.begin());
  if (parts.size() < 2) return std::nullopt;
  if (const size_t at = parts[1].find('@'); at != std::string::npos && !url) {
    name.revision = parts[1].substr(at + 1);
    parts[1].resize(at);
  }
  name.id = parts[0] + "/" + parts[1];
  auto file = parts.cbegin() + 2;
  if (url && file != parts.cend()) {  // .../tree/main/file
    if (parts.size() < 4 || (*file != "tree" && *file != "blob" && *file != "resolve")) return std::nullopt;
    name.revision = parts[3];
    file += 2;
  }
  name.file = joined(file, parts.cend());
  const bool all_plain = std::all_of(file, parts.cend(), plain) && plain(parts[0]) && plain(parts[1]);
  return all_plain && plain(name.revision) ? std::optional(name) : std::nullopt;
}

fs::path hub_cache() {
  if (const char* cache = given("HF_HUB_CACHE")) return cache;
  if (const char* home = given("HF_HOME")) return fs::path(home) / "hub";
  const char* cache = given("XDG_CACHE_HOME");
  const char* home = given("HOME");
  return (cache ? fs::path(cache) : fs::path(home ? home : "/root") / ".cache") / "huggingface" / "hub";
}

std::optional<fs::path> cached(const HubName& name) {
  std::error_code ignored;
  const fs::path repository = hub_cache() / folder_of(name), reference = repository / "refs" / name.revision;
  const std::string commit = fs::is_regular_file(reference, ignored) ? without_newline(read_file(reference))
                                                                     : name.revision;
  const fs::path found = repository / "snapshots" / commit / name.file;
  return fs::exists(found, ignored) ? std::optional(name.file.empty() ? found.parent_path() : found) : std::nullopt;
}

std::vector<CachedRepository> cached_repositories() {
  std::vector<CachedRepository> all;
  const fs::path cache = hub_cache();
  for (const std::string& folder : names_in(cache, [](const fs::path& entry) { return fs::is_directory(entry); })) {
    auto name = name_of_folder(folder);
    if (!name) continue;
    const fs::path repository = cache / folder;
    bool complete = true;
    for (const std::string& blob : names_in(repository / "blobs", [](const fs::path&) { return true; }))
      complete &= !blob.ends_with(".incomplete");
    for (const std::string& revision :
         names_in(repository / "refs", [](const fs::path& entry) { return fs::is_regular_file(entry); })) {
      name->revision = revision;
      const auto snapshot = cached(*name);
      if (!snapshot) continue;
      uint64_t bytes = 0;
      for (const auto& entry : fs::recursive_directory_iterator(*snapshot))
        if (entry.is_regular_file()) bytes += entry.file_size();
      all.push_back({.name = *name, .snapshot = *snapshot, .bytes = bytes, .complete = complete});
    }
  }
  return all;
}

std::string pull_hint(const std::string& text) {
  const auto name = parse_hub_name(text);
  // A folder of that name beside it: a path that is mistyped.
  if (!name || text.find("://") != std::string::npos || fs::is_directory(text.substr(0, text.find('/'))))
    return nearest_path_hint(text);
  return fmt::format(" (if that is a name on the Hugging Face hub: tritonforge model pull {})", text);
}

}  // namespace tritonforge

#include "orchestrate/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/cuda_driver.h"
#include "base/error.h"

namespace tritonforge::orchestrate {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

// Processes of a group, and its devices by count: more than any cluster has, and few enough to be listed.
constexpr int64_t kMost = 1 << 16;

template <typename T>
void check_distinct(const std::string& key, const std::vector<T>& listed) {
  std::set<T> seen;
  for (const T& one : listed)
    if (!seen.insert(one).second) fail(ErrorKind::kUsage, "'{}' names {} twice", key, one);
}

// So many copies of what tp, cp and pp share out.
int64_t ranks_of(const std::string& group, const Degrees& degrees, int64_t copies) {
  int64_t ranks = 1;
  for (const int64_t degree : {degrees.tp, degrees.cp, degrees.pp, copies}) {
    if (degree > kMost / ranks)
      fail(ErrorKind::kUsage, "'placement.{}': {} times tp {} * cp {} * pp {} are more than {} processes", group,
           copies, degrees.tp, degrees.cp, degrees.pp, kMost);
    ranks *= degree;
  }
  return ranks;
}

// What is known of the hosts while they are shared out.
class Pool {
 public:
  Pool(const char* noun, const std::vector<int64_t>& known) : noun_(noun), known_(known) {
    check_distinct(fmt::format("placement.{}s", noun), known);
  }

  bool unbounded() const { return known_.empty(); }
  std::string owner(const std::string& host, int64_t id) const {
    const auto found = owners_.find({host, id});
    return found == owners_.end() ? "" : found->second;
  }
  std::vector<int64_t> left(const std::string& host, int64_t wanted) const {
    std::vector<int64_t> ids;
    for (int64_t id = 0; unbounded() && std::ssize(ids) < wanted; ++id)
      if (owner(host, id).empty()) ids.push_back(id);
    for (const int64_t id : known_)
      if (std::ssize(ids) < wanted && owner(host, id).empty()) ids.push_back(id);
    return ids;
  }
  void take(const std::string& host, int64_t id, const std::string& group) { owners_[{host, id}] = group; }

  // The group's devices, host after host.
  std::vector<std::pair<std::string, int64_t>> take(const std::string& group, int64_t count,
                                                    const std::vector<int64_t>& ids,
                                                    const std::vector<std::string>& hosts) {
    const std::string key = fmt::format("placement.{}.{}", group, noun_);
    if (count > 0 && !ids.empty())
      fail(ErrorKind::kUsage, "'{}s' and '{}_ids' both say which: leave one out", key, key);
    if (count > kMost) fail(ErrorKind::kUsage, "'{}s' is {}: {} are the most", key, count, kMost);
    check_distinct(key + "_ids", ids);
    std::vector<std::pair<std::string, int64_t>> taken;
    if (!ids.empty()) {
      for (const std::string& host : hosts)
        for (const int64_t id : ids) taken.emplace_back(host, checked(key, host, id));
    } else {
      if (count > 0 && unbounded() && hosts.size() > 1)
        fail(ErrorKind::kUsage, "'{}s' by count on {} hosts needs 'placement.{}s': which each host has", key,
             hosts.size(), noun_);
      for (const std::string& host : hosts)
        for (const int64_t id : left(host, count - std::ssize(taken))) taken.emplace_back(host, id);
      if (std::ssize(taken) < count)
        fail(ErrorKind::kUsage, "'{}s' is {}, and {} are left on {}{}: {} would fit", key, count, taken.size(),
             fmt::join(hosts, ", "), used(), taken.size());
    }
    for (const auto& [host, id] : taken) take(host, id, group);
    return taken;
  }

 private:
  int64_t checked(const std::string& key, const std::string& host, int64_t id) const {
    if (!unbounded() && std::find(known_.begin(), known_.end(), id) == known_.end())
      fail(ErrorKind::kUsage, "'{}_ids': {} is not among 'placement.{}s' ({})", key, id, noun_,
           fmt::join(known_, ", "));
    if (const std::string other = owner(host, id); !other.empty()) {
      const std::string more = noun_ == std::string("gpu") ? " ('with' shares a group's)" : "";
      fail(ErrorKind::kUsage, "'{}_ids': {} of {} is the {} group's{}; the first that are left are {}", key, id, host,
           other, more, fmt::join(left(host, 4), ", "));
    }
    return id;
  }
  std::string used() const {
    std::map<std::string, int64_t> groups;
    for (const auto& [device, group] : owners_) ++groups[group];
    std::string text;
    for (const auto& [group, count] : groups)
      text += fmt::format("{}{} has {}", text.empty() ? " (" : ", ", group, count);
    return text.empty() ? "" : text + ")";
  }

  std::string noun_;
  std::vector<int64_t> known_;
  std::map<std::pair<std::string, int64_t>, std::string> owners_;
};

class Planner {
 public:
  explicit Planner(const PlacementSection& section)
      : section_(section), gpus_("gpu", section.gpus), cores_("core", section.cores) {
    layout_.given = true;
    if (!section.hosts.empty()) layout_.hosts = section.hosts;
    check_distinct("placement.hosts", layout_.hosts);
    layout_.known_gpus = {section.gpus.begin(), section.gpus.end()};
    layout_.known_cores = {section.cores.begin(), section.cores.end()};
  }

  Layout plan() {
    place_actor();
    place_engines();
    place_evaluator();
    return layout_;
  }

 private:
  Degrees actor_degrees() const {
    Degrees degrees = section_.actor.degrees;
    const int64_t model = ranks_of("actor", degrees, 1);
    const int64_t given = given_gpus("actor", section_.actor.devices);
    if (degrees.dp == 0) degrees.dp = given == 0 ? 1 : std::max<int64_t>(1, given / model);
    const int64_t world = ranks_of("actor", degrees, degrees.dp);
    if (given > 0 && world != given) {
      const int64_t fits = std::max<int64_t>(1, given / model);
      fail(ErrorKind::kUsage, "'placement.actor': tp {} * cp {} * pp {} * dp {} = {} ranks, and it has {} GPUs; {}",
           degrees.tp, degrees.cp, degrees.pp, degrees.dp, world, given,
           model * fits <= given ? fmt::format("dp {} on {} GPUs fits", fits, model * fits)
                                 : fmt::format("{} GPUs are the fewest", model));
    }
    if (degrees.dp * degrees.cp % degrees.ep != 0)
      fail(ErrorKind::kUsage, "'placement.actor.ep' {} does not divide dp * cp = {}", degrees.ep,
           degrees.dp * degrees.cp);
    return degrees;
  }

  void place_actor() {
    const Degrees degrees = layout_.actor_degrees = actor_degrees();
    const int64_t world = degrees.tp * degrees.cp * degrees.pp * degrees.dp, near = degrees.tp;
    layout_.actor = places("actor", section_.actor.devices, world);
    for (int64_t rank = 0; rank < world; rank += near) {
      if (layout_.actor[rank].host != layout_.actor[rank + near - 1].host) {
        layout_.notes.push_back(
            fmt::format("placement.actor: the {} ranks of a tensor parallel group are on two hosts", near));
        break;
      }
    }
  }

  void place_engines() {
    const RolloutPlacement& rollout = section_.rollout;
    Degrees engine = rollout.degrees;
    if (engine.dp > 1) fail(ErrorKind::kUsage, "'placement.rollout.dp': engines are 'placement.rollout.engines'");
    engine.dp = 1;
    layout_.engine_degrees = engine;
    const int64_t each = ranks_of("rollout", engine, std::max<int64_t>(1, rollout.engines)) /
                         std::max<int64_t>(1, rollout.engines);
    if (!rollout.with.empty()) {
      own_nothing("rollout", rollout.devices);
      layout_.engines = shared("rollout", layout_.actor, rollout.engines, each);
      layout_.actor_shares = layout_.rollout_shares = true;
    } else {
      const int64_t gpus = given_gpus("rollout", rollout.devices);
      const int64_t engines = rollout.engines > 0 ? rollout.engines : std::max<int64_t>(1, gpus / each);
      if (gpus > 0 && engines * each != gpus)
        fail(ErrorKind::kUsage, "'placement.rollout': {} engines of {} GPUs each are {}, and it has {}; {} engines fit",
             engines, each, engines * each, gpus, gpus / each);
      layout_.engines = places("rollout", rollout.devices, engines);
    }
  }

  void place_evaluator() {  // one process
    const EvalPlacement& eval = section_.eval;
    if (!eval.with.empty()) {
      own_nothing("eval", eval.devices);
      layout_.eval = joined(eval.with == "actor" ? layout_.actor : layout_.engines);
      layout_.eval_shares = true;
      (eval.with == "actor" ? layout_.actor_shares : layout_.rollout_shares) = true;
    } else {
      layout_.eval = places("eval", eval.devices, 1).front();
    }
  }

  const std::vector<std::string>& hosts_of(const std::string& group, const Devices& devices) const {
    for (const std::string& host : devices.hosts) {
      if (std::find(layout_.hosts.begin(), layout_.hosts.end(), host) == layout_.hosts.end())
        fail(ErrorKind::kUsage, "'placement.{}.hosts': '{}' is not among 'placement.hosts'{}", group, host,
             nearest_hint(host, layout_.hosts));
    }
    check_distinct(fmt::format("placement.{}.hosts", group), devices.hosts);
    return devices.hosts.empty() ? layout_.hosts : devices.hosts;
  }
  int64_t given_gpus(const std::string& group, const Devices& devices) const {
    const auto hosts = static_cast<int64_t>(hosts_of(group, devices).size());
    return devices.gpu_ids.empty() ? devices.gpus : std::ssize(devices.gpu_ids) * hosts;
  }
  static void own_nothing(const std::string& group, const Devices& devices) {
    if (devices.gpus + devices.cores > 0 || !devices.gpu_ids.empty() || !devices.core_ids.empty() ||
        !devices.hosts.empty())
      fail(ErrorKind::kUsage,
           "'placement.{}': 'with' shares another group's devices, and it has its own: leave one out", group);
  }

  // `count` places with equal parts of the group's devices, each on one host.
  std::vector<Place> places(const std::string& group, const Devices& devices, int64_t count) {
    const auto& hosts = hosts_of(group, devices);
    const auto gpus = gpus_.take(group, devices.gpus, devices.gpu_ids, hosts);
    std::vector<Place> made(static_cast<size_t>(count));
    if (gpus.empty()) {  // the CPUs of its hosts, in turn
      for (int64_t i = 0; i < count; ++i) made[i].host = hosts[i % hosts.size()];
      std::stable_sort(made.begin(), made.end(), [&](const Place& a, const Place& b) {
        return std::find(hosts.begin(), hosts.end(), a.host) < std::find(hosts.begin(), hosts.end(), b.host);
      });
    } else {
      share_out(group, gpus, made, &Place::gpus);
    }
    if (devices.cores == 0 && devices.core_ids.empty()) return made;
    // Cores are taken where the processes are.
    std::vector<std::string> there;
    for (const Place& place : made)
      if (there.empty() || there.back() != place.host) there.push_back(place.host);
    if (devices.cores > 0 && devices.cores % count != 0)
      fail(ErrorKind::kUsage, "'placement.{}.cores' {} is no multiple of its {} processes; {} is", group, devices.cores,
           count, std::max<int64_t>(1, devices.cores / count) * count);
    for (const std::string& host : there) {
      std::vector<Place*> here;
      for (Place& place : made)
        if (place.host == host) here.push_back(&place);
      const auto ids = cores_.take(group, devices.cores / count * std::ssize(here), devices.core_ids, {host});
      const size_t each = ids.size() / here.size();
      if (each * here.size() != ids.size())
        fail(ErrorKind::kUsage, "'placement.{}.core_ids' are {}, and {} processes on {} share them: no equal parts",
             group, ids.size(), here.size(), host);
      for (size_t i = 0; i < ids.size(); ++i) here[i / each]->cores.push_back(ids[i].second);
    }
    return made;
  }

  static void share_out(const std::string& group, const std::vector<std::pair<std::string, int64_t>>& devices,
                        std::vector<Place>& places, std::vector<int64_t> Place::* member) {
    const size_t each = group == "eval" ? devices.size() : devices.size() / places.size();
    for (size_t i = 0; i < devices.size(); ++i) {
      Place& place = places[i / each];
      if ((place.*member).empty()) place.host = devices[i].first;
      if (place.host != devices[i].first)
        fail(ErrorKind::kUsage,
             "'placement.{}': a process with {} GPUs would be on two hosts, {} and {}; name one in "
             "'hosts', or devices by id",
             group, each, place.host, devices[i].first);
      (place.*member).push_back(devices[i].second);
    }
  }

  // Engines on the devices of the actor's ranks, in their order.
  static std::vector<Place> shared(const std::string& group, const std::vector<Place>& others, int64_t engines,
                                   int64_t each) {
    if (others.front().gpus.empty()) {
      std::vector<Place> made;
      for (int64_t i = 0; i < std::max<int64_t>(1, engines); ++i) made.push_back(others[i % others.size()]);
      return made;
    }
    const auto count = static_cast<int64_t>(others.size());
    if (engines == 0) engines = count / each;
    if (engines * each != count || engines == 0)
      fail(ErrorKind::kUsage, "'placement.{}': {} engines of {} GPUs each are not the actor's {} GPUs; {} engines fit",
           group, engines, each, count, count / each);
    std::vector<std::pair<std::string, int64_t>> devices;
    for (const Place& place : others) devices.emplace_back(place.host, place.gpus.front());
    std::vector<Place> made(static_cast<size_t>(engines));
    share_out(group, devices, made, &Place::gpus);
    return made;
  }

  // The devices of all places on the first one's host.
  static Place joined(const std::vector<Place>& places) {
    Place all = places.front();
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i].host != all.host) continue;
      for (const int64_t id : places[i].gpus) all.gpus.push_back(id);
      for (const int64_t id : places[i].cores) all.cores.push_back(id);
    }
    const auto sorted = [](std::vector<int64_t>& ids) {
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    };
    sorted(all.gpus);
    sorted(all.cores);
    return all;
  }

  const PlacementSection& section_;
  Layout layout_;
  Pool gpus_, cores_;
};

}  // namespace

const std::vector<GpuKind>& gpu_kinds() {
  // clang-format off
  static const std::vector<GpuKind> kinds = {
      {"H100",   79.1 * kGib,  989e12, 3.35e12, 450e9},
      {"H200",  139.8 * kGib,  989e12, 4.80e12, 450e9},
      {"A100",   79.1 * kGib,  312e12, 2.04e12, 300e9}};
  // clang-format on
  return kinds;
}

std::vector<std::string> gpu_kind_names() {
  std::vector<std::string> names;
  for (const GpuKind& kind : gpu_kinds()) names.emplace_back(kind.name);
  return names;
}

const GpuKind& gpu_kind(const std::string& name) {
  const auto found = std::ranges::find_if(gpu_kinds(), [&](const GpuKind& kind) { return kind.name == name; });
  TF_CHECK(found != gpu_kinds().end(), "an unknown GPU '{}'", name);
  return *found;
}

bool PlacementSection::given() const {
  const auto says = [](const Devices& devices) {
    return devices.gpus + devices.cores > 0 || !devices.gpu_ids.empty() || !devices.core_ids.empty() ||
           !devices.hosts.empty();
  };
  const auto splits = [](const Degrees& d) {
    return d.tp > 1 || d.cp > 1 || d.pp > 1 || d.pp_chunks > 1 || d.dp > 0 || d.ep > 1;
  };
  return !hosts.empty() || !gpus.empty() || !cores.empty() || says(actor.devices) || says(rollout.devices) ||
         says(eval.devices) || splits(actor.degrees) || splits(rollout.degrees) || rollout.engines > 0 ||
         !rollout.with.empty() || !eval.with.empty();
}

std::string text_of(const Place& place) {
  std::string text = place.host;
  if (!place.gpus.empty()) text += fmt::format(": GPU {}", fmt::join(place.gpus, ", "));
  if (!place.cores.empty())
    text += fmt::format("{} cores {}", place.gpus.empty() ? ":" : ",", fmt::join(place.cores, ", "));
  return text;
}

std::map<std::string, std::string> environment_of(const Place& place, const char* shown) {
  std::vector<std::string> gpus;
  for (const int64_t id : place.gpus) gpus.push_back(fmt::format("cuda:{}", id));
  std::map<std::string, std::string> env = {{"CUDA_VISIBLE_DEVICES", visible_devices(gpus, shown)}};
  if (shown == nullptr) env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  if (!place.cores.empty()) env["OMP_NUM_THREADS"] = std::to_string(place.cores.size());
  return env;
}

std::vector<std::string> bound_to_cores(const Place& place, std::vector<std::string> argv) {
  if (place.cores.empty()) return argv;
  const std::vector<std::string> taskset = {"taskset", "-c", fmt::format("{}", fmt::join(place.cores, ","))};
  argv.insert(argv.begin(), taskset.begin(), taskset.end());
  return argv;
}

Layout lay_out(const PlacementSection& placement) { return Planner(placement).plan(); }

Place Layout::elsewhere(const Place& place, const std::set<std::string>& gone, const std::vector<Place>& taken) const {
  std::optional<Place> best;
  int64_t fewest = 0;
  for (const std::string& host : hosts) {
    if (gone.contains(host)) continue;
    std::set<int64_t> used_gpus, used_cores;
    int64_t processes = 0;
    for (const Place& other : taken) {
      if (other.host != host) continue;
      ++processes;
      used_gpus.insert(other.gpus.begin(), other.gpus.end());
      used_cores.insert(other.cores.begin(), other.cores.end());
    }
    const auto first_free = [&](const std::set<int64_t>& known, const std::set<int64_t>& used, size_t wanted) {
      std::vector<int64_t> ids;
      for (const int64_t id : known)
        if (ids.size() < wanted && !used.contains(id)) ids.push_back(id);
      return ids;
    };
    Place there{.host = host};
    // A placement that names devices by their ids says nothing of a host's others: the same ones there.
    const auto or_same = [](const std::set<int64_t>& known, const std::vector<int64_t>& lost) {
      return known.empty() ? std::set<int64_t>(lost.begin(), lost.end()) : known;
    };
    there.gpus = first_free(or_same(known_gpus, place.gpus), used_gpus, place.gpus.size());
    there.cores = first_free(or_same(known_cores, place.cores), used_cores, place.cores.size());
    if (there.gpus.size() < place.gpus.size()) continue;
    if (there.cores.size() < place.cores.size()) there.cores.clear();  // not bound is better than not there
    if (best && processes >= fewest) continue;
    best = there;
    fewest = processes;
  }
  if (best) return *best;
  fail(ErrorKind::kUnavailable, "{} is gone, and none of the other hosts ({}) has {} GPUs left", place.host,
       fmt::join(hosts, ", "), place.gpus.size());
}

std::optional<Place> with_its_sharers(const Place& first, const std::set<std::string>& gone,
                                      const std::vector<Moved>& others) {
  std::optional<Place> there;
  for (const int64_t id : first.gpus) {
    const auto sharer = std::ranges::find_if(others, [&](const Moved& other) {
      return other.first.host == first.host && !gone.contains(other.now.host) &&
             std::ranges::count(other.first.gpus, id) > 0;
    });
    if (sharer == others.end()) return std::nullopt;
    if (!there) there = Place{.host = sharer->now.host};
    if (there->host != sharer->now.host) return std::nullopt;
    const auto at = std::ranges::find(sharer->first.gpus, id) - sharer->first.gpus.begin();
    there->gpus.push_back(sharer->now.gpus.at(static_cast<size_t>(at)));
  }
  return there;
}

}  // namespace tritonforge::orchestrate

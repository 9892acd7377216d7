// The part of the store that serves the legacy endpoints.
#include <algorithm>
#include <map>

#include "base/clock.h"
#include "rollout/store.h"
#include "rollout/stored_group.h"

namespace tritonforge::rollout {

bool Store::write_item(const std::string& uid, const std::string& instance_id, double reward, const std::string& body) {
  bool written = false;
  commits_.run([&] {
    Statement insert = database_.prepare(
        "INSERT OR IGNORE INTO items(uid, instance_id, reward, created, body) VALUES(?, ?, ?, ?, ?)");
    insert.bind(1, uid).bind(2, instance_id).bind(3, reward).bind(4, unix_seconds()).bind(5, body).run();
    written = database_.changes() != 0;
  });
  return written;
}

std::vector<Store::LegacyGroup> Store::legacy_groups(int64_t min_items, const LegacyRules& rules, double now) {
  std::lock_guard lock(reading_);
  const Transaction moment(reader_);
  std::vector<LegacyGroup> out;
  int64_t held = 0;
  const auto enough = [&] { return min_items >= 0 && held >= min_items; };

  std::vector<std::string> ids;
  {
    Statement rows = reader_.prepare("SELECT id FROM groups WHERE state = 'complete' AND legacy = 1 ORDER BY seq");
    while (rows.step()) ids.push_back(rows.text(0));
  }
  for (const std::string& id : ids) {
    if (enough()) return out;
    LegacyGroup& group = out.emplace_back();
    group.group = group_named(reader_, id);
    group.trajectories = trajectories_of(stored_group(reader_, id));
    held += static_cast<int64_t>(group.trajectories.size());
  }

  // External items: an instance's oldest group_size items make a group; fewer do where nobody wrote for long enough.
  struct Instance {
    std::vector<int64_t> items;
    double last = 0;
  };
  std::map<std::string, Instance> instances;
  std::vector<std::string> order;
  Statement rows = reader_.prepare("SELECT seq, instance_id, created FROM items WHERE lease_id = '' ORDER BY seq");
  while (rows.step()) {
    const std::string id = rows.text(1);
    if (!instances.contains(id)) order.push_back(id);
    instances[id].items.push_back(rows.integer(0));
    instances[id].last = rows.number(2);
  }
  const auto least = static_cast<size_t>(
      std::max(1.0, static_cast<double>(rules.group_size) * rules.min_timeout_ratio));
  for (const std::string& id : order) {
    const Instance& instance = instances[id];
    const auto size = static_cast<size_t>(rules.group_size);
    for (size_t begin = 0; begin < instance.items.size() && !enough();) {
      const size_t left = instance.items.size() - begin;
      const bool late = now - instance.last >= rules.timeout_s && left >= least;
      if (left < size && !late) break;
      const size_t count = std::min(left, size);
      LegacyGroup& group = out.emplace_back();
      group.external = true;
      group.group.id = group.group.problem_id = id;
      for (size_t i = begin; i < begin + count; ++i) {
        Statement row = reader_.prepare("SELECT body FROM items WHERE seq = ?");
        row.bind(1, instance.items[i]);
        TF_CHECK(row.step(), "item {} is not there", instance.items[i]);
        group.bodies.push_back(row.text(0));
        group.items.push_back(instance.items[i]);
      }
      begin += count;
      held += static_cast<int64_t>(count);
    }
  }
  return out;
}

std::string Store::take_legacy(const std::vector<LegacyGroup>& groups) {
  std::string lease_id;
  commits_.run([&] {
    const int64_t reading = number("reads") + 1;
    set_number("reads", reading);
    lease_id = fmt::format("read-{}", reading);
    std::vector<std::string> ids;
    for (const LegacyGroup& group : groups) {
      for (int64_t item : group.items)
        database_.prepare("UPDATE items SET lease_id = ? WHERE seq = ?").bind(1, lease_id).bind(2, item).run();
      if (group.external) continue;
      database_.prepare("UPDATE groups SET state = 'leased', lease_id = ? WHERE id = ?")
          .bind(1, lease_id)
          .bind(2, group.group.id)
          .run();
      ids.push_back(group.group.id);
    }
    database_.prepare("INSERT INTO leases(id, state, created, group_ids) VALUES(?, 'leased', ?, ?)")
        .bind(1, lease_id)
        .bind(2, unix_seconds())
        .bind(3, Json(ids).dump())
        .run();
    forget_read(reading);
  });
  return lease_id;
}

// Nobody commits a reading: it counts as trained on when so many others came after it as leases keep their tokens.
void Store::forget_read(int64_t reading) {
  {
    Statement old = database_.prepare("SELECT id FROM leases WHERE id = ? AND state = 'leased'");
    old.bind(1, fmt::format("read-{}", reading - retention_.steps));
    if (old.step()) commit(old.text(0), 0);
  }
  if (retention_.trajectories == 0) return;
  database_.prepare("DELETE FROM items WHERE seq <= (SELECT max(seq) FROM items) - ? AND lease_id != ''")
      .bind(1, retention_.trajectories)
      .run();
}

Store::LegacyCounts Store::legacy_counts() {
  std::lock_guard lock(reading_);
  LegacyCounts out;
  Statement rows = reader_.prepare("SELECT name, value FROM totals WHERE name IN ('items.written', 'items.read')");
  while (rows.step()) (rows.text(0) == "items.read" ? out.read : out.written) = rows.integer(1);
  out.waiting = out.written - out.read;
  return out;
}

std::string Store::setting(const std::string& key, const std::string& fallback) {
  std::lock_guard lock(reading_);
  Statement row = reader_.prepare("SELECT value FROM settings WHERE key = ?");
  row.bind(1, key);
  return row.step() ? row.text(0) : fallback;
}

void Store::set_setting(const std::string& key, const std::string& value) {
  commits_.run([&] {
    database_.prepare("INSERT OR REPLACE INTO settings(key, value) VALUES(?, ?)").bind(1, key).bind(2, value).run();
  });
}

}  // namespace tritonforge::rollout

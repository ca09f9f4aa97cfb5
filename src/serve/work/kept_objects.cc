#include "serve/work/kept_objects.h"

#include <algorithm>
#include <functional>
#include <set>

namespace llada::serve {
namespace {

constexpr const char* kOwner = "owner";  // in the store alone
// Of a batch.
const std::set<std::string> kOpen = {"validating", "in_progress", "finalizing", "cancelling"};
const std::set<std::string> kEnded = {"completed", "failed", "expired", "cancelled"};

bool is_id(const std::string& id, std::string_view begin) {
  return id.starts_with(begin) && id.find('/') == std::string::npos;  // it is the name of a file, too
}

// What is wrong with it; empty: nothing.
std::string fault_of(const Json& json, const std::string& id) {
  const auto is = [&](const char* name, bool (Json::*type)() const noexcept) {
    const auto field = json.find(name);
    return field != json.end() && ((*field).*type)();
  };
  if (!json.is_object()) return "needed an object";
  if (!is("id", &Json::is_string) || json["id"] != id) return "id: needed a text, that of its row";
  for (const char* name : {"created_at"})
    if (!is(name, &Json::is_number_integer)) return fmt::format("{}: needed a whole number", name);
  if (json.contains(kOwner) && !is(kOwner, &Json::is_string)) return "owner: needed a text";
  const bool batch = json.value("object", Json()) == "batch";
  if (!batch && json.value("object", Json()) != "file") return "object: needed file or batch";
  if (!is_id(id, batch ? kBatchId : kFileId)) return "id: needed that of a file or batch";
  if (!batch) {
    if (!is("bytes", &Json::is_number_integer) || json["bytes"] < 0) return "bytes: needed a whole number";
    if (json.contains("expires_at") && !is("expires_at", &Json::is_number_integer))
      return "expires_at: needed a whole number";
    for (const char* name : {"filename", "purpose", "status"})
      if (!is(name, &Json::is_string)) return fmt::format("{}: needed a text", name);
    return "";
  }
  for (const char* name : {"status", "input_file_id", "endpoint"})
    if (!is(name, &Json::is_string)) return fmt::format("{}: needed a text", name);
  if (!kOpen.contains(json["status"].get<std::string>()) && !kEnded.contains(json["status"].get<std::string>()))
    return "status: needed one that a batch of this version has";
  if (!is_id(json["input_file_id"], kFileId)) return "input_file_id: needed that of a file";
  if (!is("expires_at", &Json::is_number_integer)) return "expires_at: needed a whole number";
  if (!is("request_counts", &Json::is_object)) return "request_counts: needed an object";
  if (!json.contains("in_progress_at")) return "in_progress_at: needed a time or null";
  return "";
}

}  // namespace

Result<KeptObject> KeptObject::read(const StoredObject& stored) {
  KeptObject object{parse_json_object(stored.json, stored.id, kOwnJson).value_or(Json())};
  if (const std::string fault = fault_of(object.json, stored.id); !fault.empty()) return invalid("{}", fault);
  object.owner = object.json.value(kOwner, "");
  object.json.erase(kOwner);
  return object;
}

StoredObject KeptObject::stored() const {
  Json with_owner = json;
  if (!owner.empty()) with_owner[kOwner] = owner;
  return {id(), dump(with_owner)};
}

bool KeptObject::is_open() const { return !is_file() && !kEnded.contains(json.at("status").get<std::string>()); }

KeptObject* KeptObjects::find(const std::string& id) {
  const auto found = objects_.find(id);
  return found == objects_.end() ? nullptr : &found->second;
}
const KeptObject* KeptObjects::find(const std::string& id) const {
  const auto found = objects_.find(id);
  return found == objects_.end() ? nullptr : &found->second;
}

void KeptObjects::count(const KeptObject& object, int64_t sign) {
  const auto keep = [&](auto& list, const char* time) {
    std::pair entry(object.json.at(time).get<int64_t>(), object.id());
    if (sign > 0) {
      list.insert(std::move(entry));
    } else {
      list.erase(entry);
    }
  };
  if (!object.is_file()) {
    keep(object.is_open() ? open_ : ended_, "created_at");
    std::pair reader(object.json.at("input_file_id").get<std::string>(), object.id());
    if (sign < 0) {
      readers_.erase(reader);
    } else if (object.is_open()) {
      readers_.insert(std::move(reader));
    }
    return;
  }
  files_ += sign;
  bytes_ += sign * object.json.at("bytes").get<int64_t>();
  if (object.json.contains("expires_at")) keep(expiring_, "expires_at");
}

void KeptObjects::put(KeptObject object) {
  std::string id = object.id();
  remove(id);
  count(object, 1);
  objects_.emplace(std::move(id), std::move(object));
}

void KeptObjects::remove(const std::string& id) {
  const auto found = objects_.find(id);
  if (found == objects_.end()) return;
  count(found->second, -1);
  objects_.erase(found);
}

std::vector<Json> KeptObjects::all(std::string_view kind, std::string_view asker) const {
  std::vector<Json> found;
  for (const auto& [id, object] : objects_)
    if (object.json.at("object") == kind && object.seen_by(asker)) found.push_back(object.json);
  std::ranges::stable_sort(found, std::greater(),
                           [](const Json& json) { return json.at("created_at").get<int64_t>(); });
  return found;
}

std::string KeptObjects::reader_of(const std::string& file) const {
  const auto found = readers_.lower_bound({file, ""});
  return found != readers_.end() && found->first == file ? found->second : "";
}

std::vector<std::string> KeptObjects::expired(int64_t now) const {
  std::vector<std::string> files;
  for (const auto& [time, id] : expiring_) {
    if (time >= now) break;
    if (reader_of(id).empty()) files.push_back(id);
  }
  return files;
}

}  // namespace llada::serve

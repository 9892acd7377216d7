#pragma once
// The card of a built data set as one page: what each stage dropped and why, lengths, families, licences, sample rows.
#include <string>
#include <vector>

#include "base/json.h"
#include "dataset/build/row.h"

namespace tritonforge::orchestrate {

// `card` is what `data build` wrote as card.json.
std::string data_page(const Json& card, const std::vector<dataset::Row>& samples);

}  // namespace tritonforge::orchestrate

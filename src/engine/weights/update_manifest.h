#pragma once

#include <map>
#include <string>
#include <vector>

#include "contract/weight_sink.h"
#include "models/weights.h"

// What the manifests of updates, one after the other, say together. Tables have their layout.
namespace rlgen::engine {

// The type that each name is stored in, before a profile holds its matrix in another.
using StoredTypes = std::map<std::string, DType, std::less<>>;

// The tensors of a manifest that the model has, with the types in which they are served.
std::vector<ManifestEntry> as_served(std::vector<ManifestEntry> sent,
                                     const models::NameTable& table);

// `listed` and, behind it, what `base`, the tensors that are served, has under other names. Where
// `listed` names experts in another form than `base`, those of `base` are named in that form too.
std::vector<ManifestEntry> with_rest(std::vector<ManifestEntry> listed,
                                     const std::vector<ManifestEntry>& base,
                                     const models::NameTable& table);

// Gives names of the other form the type of the tensors whose rows they name.
void add_other_names(const models::NameTable& table, StoredTypes* stored);

}  // namespace rlgen::engine

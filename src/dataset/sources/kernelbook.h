#pragma once
// KernelBook (Hugging Face: GPUMODE/KernelBook): PyTorch modules and the Triton code that torch.compile made of them.
#include "dataset/sources/records.h"
#include "dataset/sources/source.h"

namespace tritonforge::dataset {

struct KernelBookColumns {
  std::string python_code = "python_code", triton_code = "triton_code", entry_point = "entry_point", uuid = "uuid",
              licenses = "licenses", repo_name = "repo_name", stars = "stars";
  template <typename V>
  void describe(V& v) {
    v("python_code", python_code, "column of the PyTorch module, with get_inputs and get_init_inputs");
    v("triton_code", triton_code, "column of the solution: triton_code or original_triton_code");
    v("entry_point", entry_point, "column of the module's class; the solution's has New behind it");
    v("uuid", uuid, "column of the row's id");
    v("licenses", licenses, "column of the licence: a text or a list of texts");
    v("repo_name", repo_name, "column of the repository");
    v("stars", stars, "column of the repository's stars");
  }
};

struct KernelBookOptions {
  std::string path;
  KernelBookColumns columns;
  template <typename V>
  void describe(V& v) {
    v("path", path, required(), "the data set's folder, or a .parquet or .jsonl file");
    v("columns", columns, "where a column has another name");
  }
};

// A pair in the form of KernelBench: the module's class becomes Model, the solution's ModelNew, and get_init_inputs,
// which returns [[positional], {by name}] here, returns what Model is called with in order. Drops the row where that
// cannot be said: names that collide, arguments by name that are not the constructor's next ones.
void take_kernelbook_form(Row& row);

std::unique_ptr<Source> make_kernelbook(const KernelBookOptions& options);

}  // namespace tritonforge::dataset

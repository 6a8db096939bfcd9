#include "spec/check_rules.h"

namespace pipeledger {

void check_modelled(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  struct Feature {
    bool is_used;
    const char* field;
  };
  const Feature features[] = {
      {train.transformer_impl == TransformerImpl::local, "train.transformer_impl"},
      {train.fp32_residual_connection, "train.fp32_residual_connection"},
  };
  for (const Feature& feature : features) {
    if (feature.is_used) findings.add(feature.field, "is not modelled; remove it");
  }
}

}  // namespace pipeledger

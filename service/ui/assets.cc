#include "service/ui/assets.h"

namespace ranklog::ui {

const Asset* FindAsset(absl::string_view name) {
  for (const Asset& asset : Assets()) {
    if (asset.name == name) return &asset;
  }
  return nullptr;
}

}  // namespace ranklog::ui

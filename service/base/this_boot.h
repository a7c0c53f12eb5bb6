// The identifier of this boot of the machine.

#ifndef SERVICE_BASE_THIS_BOOT_H_
#define SERVICE_BASE_THIS_BOOT_H_

#include <fstream>
#include <string>

namespace ranklog {

// The same identifier that ranks send (Identity.boot_id). Empty if /proc does not have it.
inline const std::string& ThisBoot() {
  static const std::string id = [] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string line;
    std::getline(file, line);
    return line;
  }();
  return id;
}

}  // namespace ranklog

#endif  // SERVICE_BASE_THIS_BOOT_H_

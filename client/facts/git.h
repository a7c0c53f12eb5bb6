// Facts of a git repository, read from its files. git is not run.

#ifndef CLIENT_FACTS_GIT_H_
#define CLIENT_FACTS_GIT_H_

#include <string>

namespace ranklog::internal {

// What is empty is unknown.
struct GitFacts {
  std::string root;    // the directory of the working tree
  std::string branch;  // empty if HEAD is detached
  std::string commit;
  std::string remote;  // its URL, without a password
  std::string email;   // user.email
};

struct GitOptions {
  std::string directory;          // from which the repository is searched upwards
  std::string git_dir;            // GIT_DIR: the repository itself
  std::string work_tree;          // GIT_WORK_TREE, with GIT_DIR
  std::string remote = "origin";  // whose URL
  std::string home;               // HOME, for the user's configuration
  std::string config_home;        // XDG_CONFIG_HOME
};

// Knows working trees of their own (`git worktree`), submodules and packed refs. Does not know
// reftables, included configurations and url.*.insteadOf.
GitFacts ReadGit(const GitOptions& options);

// `url` without user and password, if it has the form scheme://.
std::string WithoutPassword(const std::string& url);

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_GIT_H_

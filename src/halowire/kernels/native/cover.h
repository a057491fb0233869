// A minimum vertex cover of a bipartite graph: a maximum matching by Hopcroft and Karp, then König's theorem.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace halowire {

// The graph has `left` nodes with the neighbours indices[indptr[u] .. indptr[u + 1]) among `right` nodes.
template <class Index>
class Matching {
 public:
  Matching(const int64_t* indptr, const Index* indices, int64_t left, int64_t right)
      : indptr_(indptr), indices_(indices), left_(left), of_left_(left, kNone), of_right_(right, kNone), depth_(left),
        next_(left) {
    for (int64_t u : by_degree()) greedy(u);
    while (layers())
      for (size_t place = 0; place < starts_; ++place) augment(queue_[place]);
  }

  // covered[u] = 1 where left node u is in the cover: matched, and on no alternating path from an unmatched left node.
  // The other nodes of the cover are the right neighbours of left nodes that are not covered.
  void cover(uint8_t* covered) {
    for (int64_t u = 0; u < left_; ++u) covered[u] = 1;
    queue_.clear();
    for (int64_t u = 0; u < left_; ++u)
      if (of_left_[u] == kNone) reach(u, covered);
    for (size_t head = 0; head < queue_.size(); ++head) {
      const int64_t u = queue_[head];
      for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e) {
        const int32_t mate = of_right_[indices_[e]];
        if (mate != kNone && covered[mate]) reach(mate, covered);
      }
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int64_t kDegrees = 64;  // nodes of more neighbours are treated alike

  void reach(int64_t u, uint8_t* covered) {
    covered[u] = 0;
    queue_.push_back(u);
  }

  void join(int64_t u, int64_t v) {
    of_left_[u] = static_cast<int32_t>(v);
    of_right_[v] = static_cast<int32_t>(u);
  }

  // All left nodes, those with the fewest neighbours first: they have the fewest choices.
  std::vector<int64_t> by_degree() const {
    const auto degree = [&](int64_t u) { return std::min<int64_t>(indptr_[u + 1] - indptr_[u], kDegrees - 1); };
    std::vector<int64_t> first(kDegrees + 1, 0), order(left_);
    for (int64_t u = 0; u < left_; ++u) ++first[degree(u) + 1];
    for (int64_t d = 0; d < kDegrees; ++d) first[d + 1] += first[d];
    for (int64_t u = 0; u < left_; ++u) order[first[degree(u)]++] = u;
    return order;
  }

  void greedy(int64_t u) {
    for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e)
      if (of_right_[indices_[e]] == kNone) return join(u, indices_[e]);
  }

  // Breadth first from all unmatched left nodes; whether an unmatched right node can be reached.
  bool layers() {
    queue_.clear();
    for (int64_t u = 0; u < left_; ++u) {
      depth_[u] = of_left_[u] == kNone ? 0 : kNone;
      next_[u] = indptr_[u];
      if (depth_[u] == 0 && indptr_[u] < indptr_[u + 1]) queue_.push_back(u);
    }
    starts_ = queue_.size();
    bool found = false;
    for (size_t head = 0; head < queue_.size(); ++head) {
      const int64_t u = queue_[head];
      for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e) {
        const int32_t mate = of_right_[indices_[e]];
        found |= mate == kNone;
        if (mate != kNone && depth_[mate] == kNone) {
          depth_[mate] = depth_[u] + 1;
          queue_.push_back(mate);
        }
      }
    }
    return found;
  }

  // Depth first along the layers from the unmatched left node `start`; a path to an unmatched right node is turned over.
  void augment(int64_t start) {
    path_.assign(1, start);
    while (!path_.empty()) {
      const int64_t u = path_.back();
      if (next_[u] == indptr_[u + 1]) {  // a dead end: the edge that led here is used up, too
        path_.pop_back();
        if (!path_.empty()) ++next_[path_.back()];
        continue;
      }
      const int32_t mate = of_right_[indices_[next_[u]]];
      if (mate == kNone) {
        for (const int64_t node : path_) join(node, indices_[next_[node]]);
        return;
      }
      if (depth_[mate] == depth_[u] + 1) path_.push_back(mate);
      else ++next_[u];
    }
  }

  const int64_t* indptr_;
  const Index* indices_;
  int64_t left_;
  // Nodes are numbered in 32 bits, which halves what is read at random places; no worker has more of them.
  std::vector<int32_t> of_left_, of_right_, depth_;
  std::vector<int64_t> next_, queue_, path_;
  size_t starts_ = 0;
};

}  // namespace halowire

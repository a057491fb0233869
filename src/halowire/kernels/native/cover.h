// A minimum vertex cover of a bipartite graph: a maximum matching, then König's theorem.
//
// The matching begins with the rule of Karp and Sipser: a node with one free neighbour left is matched to it, which no
// maximum matching is worse for. The rest is found by growing alternating trees from all free left nodes at once, with
// grafting (Azad, Buluç and Pothen, 2017): a tree that found a free right node is turned over and taken down, all other
// trees stay as they are and take over what it leaves. At the end the trees hold the left nodes that are not covered.
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
      : indptr_(indptr), indices_(indices), left_(left), right_(right), of_left_(left, kNone), of_right_(right, kNone),
        root_(left, kNone), leaf_(left, kNone), parent_(right, kNone) {
    turn_around();
    karp_sipser();
    for (int64_t u = 0; u < left_; ++u)
      if (of_left_[u] == kNone) plant(static_cast<int32_t>(u));
    do grow();
    while (turn_over() && graft());
  }

  // covered[u] = 1 where left node u is in the cover: matched, and on no alternating path from an unmatched left node.
  // The other nodes of the cover are the right neighbours of left nodes that are not covered.
  void cover(uint8_t* covered) const {
    for (int64_t u = 0; u < left_; ++u) covered[u] = root_[u] == kNone;
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int64_t kDegrees = 64;  // nodes of more neighbours are treated alike

  void join(int32_t u, int32_t v) {
    of_left_[u] = v;
    of_right_[v] = u;
  }

  // The left neighbours of every right node.
  void turn_around() {
    back_.assign(right_ + 1, 0);
    const int64_t edges = indptr_[left_];
    for (int64_t e = 0; e < edges; ++e) ++back_[indices_[e] + 1];
    for (int64_t v = 0; v < right_; ++v) back_[v + 1] += back_[v];
    lefts_.resize(edges);
    std::vector<int64_t> next(back_.begin(), back_.end() - 1);
    for (int64_t u = 0; u < left_; ++u)
      for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e) lefts_[next[indices_[e]]++] = static_cast<int32_t>(u);
  }

  // Matches nodes with one free neighbour first, on both sides; where there are none, a left node with few neighbours.
  void karp_sipser() {
    std::vector<int32_t> free_left(left_), free_right(right_);  // free neighbours of every node
    for (int64_t u = 0; u < left_; ++u) free_left[u] = static_cast<int32_t>(indptr_[u + 1] - indptr_[u]);
    for (int64_t v = 0; v < right_; ++v) free_right[v] = static_cast<int32_t>(back_[v + 1] - back_[v]);
    std::vector<int32_t> ones;  // u for a left node, -2 - v for a right node
    for (int64_t u = 0; u < left_; ++u)
      if (free_left[u] == 1) ones.push_back(static_cast<int32_t>(u));
    for (int64_t v = 0; v < right_; ++v)
      if (free_right[v] == 1) ones.push_back(static_cast<int32_t>(-2 - v));
    const auto match = [&](int32_t u, int32_t v) {
      join(u, v);
      for (int64_t e = back_[v]; e < back_[v + 1]; ++e)
        if (--free_left[lefts_[e]] == 1 && of_left_[lefts_[e]] == kNone) ones.push_back(lefts_[e]);
      for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e) {
        const auto other = static_cast<int32_t>(indices_[e]);
        if (--free_right[other] == 1 && of_right_[other] == kNone) ones.push_back(-2 - other);
      }
    };
    const auto match_left = [&](int32_t u) {
      if (of_left_[u] != kNone) return;
      for (int64_t e = indptr_[u]; e < indptr_[u + 1]; ++e)
        if (of_right_[indices_[e]] == kNone) return match(u, static_cast<int32_t>(indices_[e]));
    };
    const auto match_right = [&](int32_t v) {
      if (of_right_[v] != kNone) return;
      for (int64_t e = back_[v]; e < back_[v + 1]; ++e)
        if (of_left_[lefts_[e]] == kNone) return match(lefts_[e], v);
    };
    for (const int32_t u : by_degree()) {
      while (!ones.empty()) {
        const int32_t node = ones.back();
        ones.pop_back();
        if (node >= 0) match_left(node);
        else match_right(-2 - node);
      }
      match_left(u);
    }
  }

  // All left nodes, those with the fewest neighbours first: they have the fewest choices.
  std::vector<int32_t> by_degree() const {
    const auto degree = [&](int64_t u) { return std::min<int64_t>(indptr_[u + 1] - indptr_[u], kDegrees - 1); };
    std::vector<int64_t> first(kDegrees + 1, 0);
    std::vector<int32_t> order(left_);
    for (int64_t u = 0; u < left_; ++u) ++first[degree(u) + 1];
    for (int64_t d = 0; d < kDegrees; ++d) first[d + 1] += first[d];
    for (int64_t u = 0; u < left_; ++u) order[first[degree(u)]++] = static_cast<int32_t>(u);
    return order;
  }

  // Left node u is the root of a tree of its own.
  void plant(int32_t u) {
    root_[u] = u;
    leaf_[u] = kNone;
    front_.push_back(u);
  }

  // Right node v, which is in no tree, joins that of left node u; with it comes the left node that it is matched to.
  void climb(int32_t u, int32_t v) {
    parent_[v] = u;
    reached_.push_back(v);
    const int32_t mate = of_right_[v];
    if (mate == kNone) {
      leaf_[root_[u]] = v;
      found_.push_back(root_[u]);
    } else {
      root_[mate] = root_[u];
      front_.push_back(mate);
    }
  }

  // Breadth first, until no tree can grow; a tree that has found a free right node grows no further.
  void grow() {
    for (size_t head = 0; head < front_.size(); ++head) {
      const int32_t u = front_[head];
      for (int64_t e = indptr_[u]; e < indptr_[u + 1] && leaf_[root_[u]] == kNone; ++e)
        if (parent_[indices_[e]] == kNone) climb(u, static_cast<int32_t>(indices_[e]));
    }
    front_.clear();
  }

  // Turns over the path from the free right node of every tree that has one to its root; whether there was any.
  bool turn_over() {
    for (const int32_t root : found_) {
      int32_t v = leaf_[root];
      while (v != kNone) {
        const int32_t u = parent_[v], before = of_left_[u];
        join(u, v);
        v = before;
      }
    }
    return !found_.empty();
  }

  // Takes down the trees that were turned over; their right nodes join other trees that they have a neighbour in.
  bool graft() {
    std::vector<int32_t> freed;
    size_t kept = 0;
    for (const int32_t v : reached_) {
      if (leaf_[root_[parent_[v]]] == kNone) reached_[kept++] = v;
      else freed.push_back(v);
    }
    reached_.resize(kept);
    // A root is the mark of its whole tree, so that it is taken away last.
    for (const int32_t v : freed) parent_[v] = kNone;
    for (const int32_t v : freed)
      if (of_right_[v] != kNone) root_[of_right_[v]] = kNone;
    for (const int32_t root : found_) root_[root] = kNone;
    found_.clear();
    for (const int32_t v : freed)
      for (int64_t e = back_[v]; e < back_[v + 1]; ++e)
        if (root_[lefts_[e]] != kNone) {
          climb(lefts_[e], v);
          break;
        }
    return true;
  }

  const int64_t* indptr_;
  const Index* indices_;
  int64_t left_, right_;
  // Nodes are numbered in 32 bits, which halves what is read at random places; no worker has more of them.
  std::vector<int32_t> of_left_, of_right_;
  std::vector<int32_t> root_, leaf_;  // of every left node its tree, and of every tree the free right node it found
  std::vector<int32_t> parent_;       // of every right node the left node that it was reached from
  std::vector<int64_t> back_;
  std::vector<int32_t> lefts_, front_, reached_, found_;
};

}  // namespace halowire

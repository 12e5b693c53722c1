package runner

import "fmt"

// experts is a feed-forward block of which a router chooses parts for each token.
type experts struct {
	Count, Top int     // experts, and those of a token
	Hidden     int     // elements inside of one
	Sigmoid    bool    // scores are sigmoids of the router's logits, else their softmax
	Normed     bool    // those of the chosen ones are divided by their sum
	Scale      float32 // and multiplied by this; 0: 1
	OfInputs   bool    // they are factors of the inputs, as in Llama 4, else of the outputs
	// The experts are in Groups of equal size, and a token has only those of its TopGroups, whose GroupBest best scores add up to
	// the most; 0: all.
	Groups, TopGroups, GroupBest int
	Correction                   bool        // the router has a term for each expert that is added to scores where they are compared
	Shared                       int         // elements inside of an expert that all tokens have; 0: there is none
	SharedGate                   bool        // that one's output is multiplied by the sigmoid of a projection
	SharedName, Router           string      // what a file calls them
	Parts                        matrixNames // what it calls an expert's matrices; zero: as those of other blocks
	Bias                         bool
	// Packed is one tensor [experts, inputs, outputs] of all, gates and ups in one; else each has matrices [outputs, inputs].
	Packed  bool
	ByTurns bool // of packed ones: a gate and an up alternate, else all gates first
	Stacked bool // gates, ups and downs are tensors [experts, outputs, inputs], as GGUF has them
	Coded   bool // of those by turns: [experts, outputs, inputs] in MXFP4 (see apart)
}

// matrixNames are the names of the three matrices of a gated block.
type matrixNames [3]string

// expertWeights are the weights of experts.
type expertWeights struct {
	Router, SharedGate Matrix
	Correction         []float32 // [Count]
	Each               []FeedForward
}

func (w *loader) experts(b *Block, out *Layer) {
	e, dim, ffn := &b.Experts, w.cfg.Dim, w.cfg.FFN
	out.Experts.Router = w.matrix(ffn+e.Router, e.Count, dim, e.Bias)
	if e.Correction {
		out.Experts.Correction = w.raw(ffn+e.Router+".e_score_correction_bias", e.Count).data
	}
	if e.Shared > 0 {
		out.FFN = w.feedForward(ffn+e.SharedName+".", matrixNames{}, e.Shared)
	}
	if e.SharedGate {
		out.Experts.SharedGate = w.matrix(ffn+"shared_expert_gate", 1, dim, false)
	}
	if e.Coded { // gates and ups stay one matrix
		both, downs := w.stacked(ffn+"experts.gate_up_proj", e, 2*e.Hidden, dim), w.stacked(ffn+"experts.down_proj", e, dim, e.Hidden)
		for i := range e.Count {
			out.Experts.Each = append(out.Experts.Each, FeedForward{Gate: both[i], Down: downs[i]})
		}
		return
	}
	if e.Stacked {
		part := ffn + "experts."
		gates, ups, downs := w.stacked(part+"gate_proj", e, e.Hidden, dim), w.stacked(part+"up_proj", e, e.Hidden, dim), w.stacked(part+"down_proj", e, dim, e.Hidden)
		for i := range e.Count {
			out.Experts.Each = append(out.Experts.Each, FeedForward{gates[i], ups[i], downs[i]})
		}
		return
	}
	if !e.Packed {
		for i := range e.Count {
			out.Experts.Each = append(out.Experts.Each, w.feedForward(fmt.Sprintf("%sexperts.%d.", ffn, i), e.Parts, e.Hidden))
		}
		return
	}
	heads := 1 // each of a part of the gates and of the ups
	if e.ByTurns {
		heads = e.Hidden
	}
	both, bothBias := w.packed(ffn+"experts.gate_up_proj", e, dim, 2*e.Hidden)
	down, downBias := w.packed(ffn+"experts.down_proj", e, e.Hidden, dim)
	for i := range e.Count {
		m, bias := both.rows(1, i*dim, (i+1)*dim).transposed(), bothBias.rows(1, 2*i*e.Hidden, 2*(i+1)*e.Hidden)
		half := e.Hidden / heads
		out.Experts.Each = append(out.Experts.Each, FeedForward{
			Gate: m.rows(heads, 0, half).pack(bias.rows(heads, 0, half)),
			Up:   m.rows(heads, half, 2*half).pack(bias.rows(heads, half, 2*half)),
			Down: down.rows(1, i*e.Hidden, (i+1)*e.Hidden).transposed().pack(downBias.rows(1, i*dim, (i+1)*dim)),
		})
	}
}

// stacked is the matrices of all experts, which are in one tensor.
func (w *loader) stacked(part string, e *experts, rows, cols int) []Matrix {
	t := w.find(w.layer+part+".weight", e.Count, rows, cols)
	var biases []float32
	if e.Coded {
		biases = w.raw(part+"_bias", e.Count, rows).data
	} else if e.Bias {
		biases = w.raw(part+".bias", e.Count, rows).data
	}
	all := make([]Matrix, e.Count)
	for i := range all {
		if w.header {
			break
		}
		all[i].Matrix = w.archive.matrix(t.part(i*rows, rows), rows, cols)
		if biases != nil {
			all[i].Bias = biases[i*rows : (i+1)*rows : (i+1)*rows]
		}
	}
	return all
}

// packed is the matrices of all experts as one [experts*inputs, outputs], and their biases.
func (w *loader) packed(name string, e *experts, in, out int) (m, bias dense) {
	if m = w.raw(name, e.Count, in, out); e.Bias {
		bias = w.raw(name+"_bias", e.Count, out)
	}
	m.shape, bias.shape = []int{e.Count * in, out}, []int{e.Count * out}
	return m, bias
}

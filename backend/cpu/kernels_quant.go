package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// The quantized types of decode and encode, by the host's codecs.

func decodeRows(dst []float32, src stored) {
	for i := range src.n {
		row := src.row(i)
		quant.DecodeRow(row.dt, dst[i*row.dim:][:row.dim], row.data, row.scales)
	}
}

func encodeRows(dst stored, src []float32, saturate bool) bool {
	for i := range dst.n {
		row := dst.row(i)
		if !quant.EncodeRow(row.dt, row.data, row.scales, src[i*row.dim:][:row.dim], saturate) {
			return false
		}
	}
	return true
}

func decodeNV(dst []float32, src stored) {
	for i := range src.n {
		row := src.row(i)
		quant.DecodeNV(dst[i*row.dim:][:row.dim], row.data, row.scales, row.group(), row.factor)
	}
}

func encodeNV(dst stored, src []float32, saturate bool) bool {
	for i := range dst.n {
		row := dst.row(i)
		if !quant.EncodeNV(row.data, row.scales, src[i*row.dim:][:row.dim], row.group(), row.factor, saturate) {
			return false
		}
	}
	return true
}

func decodeFP8(dst []float32, src stored) {
	quant.DecodeFP8(src.dt, dst[:len(src.data)], src.data, math.Float32frombits(src.scales[0]))
}

func encodeFP8(dst stored, src []float32, saturate bool) bool {
	return quant.EncodeFP8(dst.dt, dst.data, src[:len(dst.data)], math.Float32frombits(dst.scales[0]), saturate)
}

func decodeChannels(dst []float32, src stored) {
	for i := range src.n {
		quant.DecodeChannels(dst[i*src.dim:][:src.dim], src.row(i).data, src.scales)
	}
}

func encodeChannels(dst stored, src []float32, saturate bool) bool {
	return quant.EncodeChannels(dst.data, dst.scales, src, saturate)
}

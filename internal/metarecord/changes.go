package metarecord

// FeatureLevel sets the level of a feature of the cluster; 0 removes it.
type FeatureLevel struct {
	Name  string
	Level int16
}

// BeginTransaction begins a change that is larger than a batch. The records up to EndTransaction
// are applied with it; records up to AbortTransaction never are.
type BeginTransaction struct{ Name string }

// EndTransaction ends the change that BeginTransaction began: the records between are applied.
type EndTransaction struct{}

// AbortTransaction voids the records since BeginTransaction.
type AbortTransaction struct{ Reason string }

// tagText is the one field of BeginTransaction and AbortTransaction.
const tagText = 0

func (*FeatureLevel) header() (uint32, uint32)     { return typeFeatureLevel, 0 }
func (*BeginTransaction) header() (uint32, uint32) { return typeBeginTransaction, 0 }
func (*EndTransaction) header() (uint32, uint32)   { return typeEndTransaction, 0 }
func (*AbortTransaction) header() (uint32, uint32) { return typeAbortTransaction, 0 }

func (l *FeatureLevel) appendFields(dst []byte, _ uint32) []byte {
	return appendUvarint(appendInt16(appendString(dst, l.Name), l.Level), 0)
}

func (l *FeatureLevel) readFields(r *reader, _ uint32) {
	l.Name, l.Level = r.string(), r.int16()
	r.untagged()
}

func (b *BeginTransaction) appendFields(dst []byte, _ uint32) []byte { return appendText(dst, b.Name) }
func (b *BeginTransaction) readFields(r *reader, _ uint32)           { b.Name = r.text() }

func (*EndTransaction) appendFields(dst []byte, _ uint32) []byte { return appendUvarint(dst, 0) }
func (*EndTransaction) readFields(r *reader, _ uint32)           { r.untagged() }

func (a *AbortTransaction) appendFields(dst []byte, _ uint32) []byte {
	return appendText(dst, a.Reason)
}
func (a *AbortTransaction) readFields(r *reader, _ uint32) { a.Reason = r.text() }

// appendText appends tagged fields: one with a text, or none for the empty text.
func appendText(dst []byte, s string) []byte {
	var t tags
	if s != "" {
		t.add(tagText, appendString(nil, s))
	}
	return t.appendTo(dst)
}

// text reads the output of appendText.
func (r *reader) text() (s string) {
	r.tagged(func(tag uint32, f *reader) {
		if tag == tagText {
			s, _ = f.str()
		}
	})
	return s
}

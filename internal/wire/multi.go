package wire

// multiHeader precedes each operation of a multi and ends the list.
type multiHeader struct {
	op   OpCode
	done bool
	err  Code
}

func (h *multiHeader) code(c coder) {
	c.int((*int32)(&h.op))
	c.bool(&h.done)
	c.int((*int32)(&h.err))
}

// An Op is one operation of a multi: its code and request record.
type Op struct {
	Code    OpCode
	Request Record
}

// MultiRequest is the request of multi and multiRead.
type MultiRequest struct{ Ops []Op }

func (r *MultiRequest) code(c coder) {
	d, decoding := c.(*Decoder)
	if !decoding {
		for _, op := range r.Ops {
			(&multiHeader{op: op.Code, err: -1}).code(c)
			op.Request.code(c)
		}
		(&multiHeader{op: OpError, done: true, err: -1}).code(c)
		return
	}
	r.Ops = nil
	for d.err == nil {
		var h multiHeader
		h.code(c)
		if h.done || d.err != nil {
			return
		}
		req := newMultiRequest(h.op)
		if req == nil {
			d.fail("operation %d in a multi", h.op)
			return
		}
		req.code(c)
		r.Ops = append(r.Ops, Op{Code: h.op, Request: req})
	}
}

func newMultiRequest(op OpCode) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete, OpCheck:
		return new(PathVersionRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpGetData, OpGetChildren:
		return new(PathWatchRequest)
	}
	return nil
}

// An OpResult is the outcome of one operation of a multi. Reply is an
// [ErrorResponse] if Code is [OpError].
type OpResult struct {
	Code  OpCode
	Err   Code
	Reply Record
}

// MultiResponse is the reply of multi and multiRead.
type MultiResponse struct{ Results []OpResult }

func (r *MultiResponse) code(c coder) {
	d, decoding := c.(*Decoder)
	if !decoding {
		for _, res := range r.Results {
			(&multiHeader{op: res.Code, err: res.Err}).code(c)
			res.Reply.code(c)
		}
		(&multiHeader{op: OpError, done: true, err: -1}).code(c)
		return
	}
	r.Results = nil
	for d.err == nil {
		var h multiHeader
		h.code(c)
		if h.done || d.err != nil {
			return
		}
		reply := newMultiReply(h.op)
		if reply == nil {
			d.fail("operation %d in a multi's reply", h.op)
			return
		}
		reply.code(c)
		r.Results = append(r.Results, OpResult{Code: h.op, Err: h.err, Reply: reply})
	}
}

func newMultiReply(op OpCode) Record {
	switch op {
	case OpCreate:
		return new(CreateResponse)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(Create2Response)
	case OpDelete, OpCheck:
		return new(Empty)
	case OpSetData:
		return new(StatResponse)
	case OpGetData:
		return new(GetDataResponse)
	case OpGetChildren:
		return new(StringsResponse)
	case OpError:
		return new(ErrorResponse)
	}
	return nil
}

package match
import ("testing";"fmt";"os";"stalloc/plan";"stalloc/stream";"stalloc/internal/mem")
// maps ref op -> slot index as addLearned does
func slotsOfRef(p *plan.Stream, ref *plan.Step) map[int32]uint32 { // ref op -> slot
  // walk ops and entries in parallel
  m:=map[int32]uint32{}
  ents:=p.Tapes[0].Entries
  ei:=0
  for i,op:=range ref.Ops {
    if ei>=len(ents){break}
    if op.Free { if ents[ei].Frees() { // matches if block slot equal
        a:=ref.Blocks[op.Block].Alloc
        if a>=0 { if s,ok:=m[a]; ok && int32(s)==ents[ei].Slot() {ei++} } } ; continue }
    if !ents[ei].Frees() && (p.Slots[ents[ei].Slot()].Size>=ref.Blocks[op.Block].Size) && p.Slots[ents[ei].Slot()].Size-p.Slots[ents[ei].Slot()].Spread<=ref.Blocks[op.Block].Size {
      m[int32(i)]=uint32(ents[ei].Slot()); ei++ }
  }
  if ei!=len(ents){fmt.Println("WARN", ei,len(ents))}
  return m
}
func TestDiag(t *testing.T){
 name:=os.Getenv("TR"); if name=="" {t.Skip()}
 var noise float64
 fmt.Sscan(os.Getenv("NOISE"),&noise)
 r:=load(t,name).disturb(1,noise)
 steps:=r.observe(); k:=len(steps)-1
 n0:=3; fmt.Sscan(os.Getenv("LEARN"),&n0)
 p,err:=plan.MakeIrregular(steps[max(1,k-n0):k],plan.Options{}); if err!=nil{t.Fatal(err)}
 ref,test:=steps[k-1][0],steps[k][0]
 to:=plan.DebugAlign(test,ref)
 ms:=slotsOfRef(&p.Streams[0],ref)
 tape:=stream.New(layout(t,&p.Streams[0]),1<<44); tape.Step()
 type B struct{a mem.Addr; tk stream.Ticket; slot bool; tr uint32; got uint32; size mem.Bytes}
 live:=map[int32]B{}
 op:=0
 var right,wrong,miss,none int; var br,bw,bm mem.Bytes
 show:=0; fmt.Sscan(os.Getenv("SHOW"),&show)
 inherited:=map[int32]bool{}
 _=inherited
 for _,e:=range r.steps[k]{ if e.stream!=0{continue}
  switch e.kind{
  case begin:
   truth:=uint32(stream.None)
   if to[op]>=0 { if s,ok:=ms[to[op]]; ok {truth=s} }
   got:=tape.Alloc(e.size)
   pos:=got.Slot
   if got.Ticket!=0 {pos=tape.TicketSlot(got.Ticket)}
   if got.Guest {pos=tape.GuestSlot(got.Addr)}
   switch { case pos==truth && pos!=stream.None: right++; br+=e.size
   case pos==truth: none++
   case pos==stream.None: miss++; bm+=e.size
   default: wrong++; bw+=e.size }
   if show>0 && pos!=truth { show--; fmt.Printf("op %d size %d truth %d got %d cursor %d lost %v\n",op,e.size,int32(truth),int32(pos),tape.State.Cursor, tape.Lost()) }
   live[e.id]=B{got.Addr,got.Ticket,got.Slot!=stream.None||got.Guest,truth,pos,e.size}
   op++
  case free:
   b:=live[e.id]
   if b.slot { if e.later {tape.Pin(b.a)} else {tape.Free(b.a)} } else {tape.Ended(b.tk)}
   op++
  case end:
   b:=live[e.id]; if b.slot {tape.Release(b.a)}
   delete(live,e.id)
  }
 }
 fmt.Println(name,"right",right,br,"wrong",wrong,bw,"missed",miss,bm,"none",none, "ops",op,len(test.Ops),"resync",tape.State.Resyncs,"late",tape.State.Late)
}
func TestDump(t *testing.T){
 name:=os.Getenv("TR"); if name=="" {t.Skip()}
 var a,b int; fmt.Sscan(os.Getenv("FROM"),&a); fmt.Sscan(os.Getenv("TO"),&b)
 r:=load(t,name); steps:=r.observe(); k:=len(steps)-1
 p,_:=plan.MakeIrregular(steps[max(1,k-3):k],plan.Options{})
 if os.Getenv("TAPE")!="" {
  for i:=a;i<b;i++ { e:=p.Streams[0].Tapes[0].Entries[i]; s:=p.Streams[0].Slots[e.Slot()]; if e.Frees(){fmt.Println(i,"  F",e.Slot())}else{fmt.Println(i,"A",e.Slot(),s.Size-s.Spread,s.Size,s.Pool)} }
  return
 }
 test:=steps[k][0]; tok:=plan.DebugTokens(test)
 for i:=a;i<b;i++ { op:=test.Ops[i]; bl:=test.Blocks[op.Block]; fmt.Println(i,op.Free,op.Block,bl.Size,"alloc",bl.Alloc,"free",bl.Free,"tok",tok[i]) }
}

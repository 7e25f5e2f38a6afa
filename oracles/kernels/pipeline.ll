  copy %x to %a0 ; @first
  sync @close_first
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %i.next = add i32 %i, 1
  %even = and i32 %i, 1
  %odd = and i32 %i.next, 1
  %now = mul i32 %even, $SLOT
  %then = mul i32 %odd, $SLOT
  %at = mul i32 %i, $SLOT
  %ahead = mul i32 %i.next, $SLOT
  %xi = getelementptr i8, ptr addrspace(1) %x, i32 %ahead
  %yi = getelementptr i8, ptr addrspace(1) %y, i32 %at
  %to = getelementptr i8, ptr addrspace(3) %a0, i32 %then
  %from = getelementptr i8, ptr addrspace(3) %other, i32 %now
  copy %xi to %to ; @next
  sync @close
  sync @meet
  %l = load float, ptr addrspace(3) %from, !alias.scope !13, !noalias !12 ; @read
  sync @free
  store float %l, ptr addrspace(1) %yi
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %loop, label %end, !llvm.loop !9
end:

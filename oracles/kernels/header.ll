@shared = internal addrspace(3) global [16384 x i8] poison, align 16
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare float @llvm.exp2.f32(float)
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.s.waitcnt(i32)
declare void @llvm.amdgcn.s.wait.dscnt(i16)
declare void @llvm.amdgcn.s.wait.loadcnt(i16)
declare void @llvm.amdgcn.s.wait.asynccnt(i16)
declare void @llvm.amdgcn.s.barrier.signal(i32)
declare void @llvm.amdgcn.s.barrier.wait(i16)
declare void @llvm.amdgcn.global.load.lds(ptr addrspace(1), ptr addrspace(3), i32, i32, i32)
declare void @llvm.amdgcn.global.load.async.to.lds.b32(ptr addrspace(1), ptr addrspace(3), i32, i32)

define amdgpu_kernel void @kernel(ptr addrspace(1) noalias %X, ptr addrspace(1) noalias %Y,
                                  ptr addrspace(1) noalias %U, i32 %n) #0 !dbg !4 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %wave = udiv i32 %t, $LANES
  %lane = urem i32 %t, $LANES
  %x = getelementptr inbounds float, ptr addrspace(1) %X, i32 %t
  %y = getelementptr inbounds float, ptr addrspace(1) %Y, i32 %t
  %u = getelementptr inbounds float, ptr addrspace(1) %U, i32 %t
  %mine = getelementptr inbounds nuw float, ptr addrspace(3) @shared, i32 %t
  %row.at = add nuw nsw i32 %t, %wave
  %row = getelementptr inbounds nuw float, ptr addrspace(3) @shared, i32 %row.at
  %lane.at = getelementptr inbounds nuw float, ptr addrspace(3) @shared, i32 %lane
  %farther = add nuw nsw i32 %t, $LANES
  %round = urem i32 %farther, $THREADS
  %other = getelementptr inbounds nuw float, ptr addrspace(3) @shared, i32 %round
  %wave.uniform = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %wave)
  %first.lane = mul nuw nsw i32 %wave.uniform, $LANES
  %a.wave = getelementptr inbounds float, ptr addrspace(3) @shared, i32 %first.lane
  %a0 = getelementptr inbounds i8, ptr addrspace(3) $COPY_BASE, i32 0
BODY
  ret void
}

attributes #0 = { "amdgpu-flat-work-group-size"="$THREADS,$THREADS" }
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "kernel.tide", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !{})
!4 = distinct !DISubprogram(name: "kernel", file: !1, line: 1, type: !3, unit: !0, spFlags: DISPFlagDefinition)
!8 = !{!"llvm.loop.unroll.disable"}
!9 = distinct !{!9, !8}
!10 = distinct !{!10}
!11 = distinct !{!11, !10}
!14 = distinct !{!14, !10}
!12 = !{!11}
!13 = !{!14}

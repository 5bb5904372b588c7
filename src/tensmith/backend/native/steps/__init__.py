"""What a native program does, in order: nodes of a program become steps, over images and over tensors."""

from tensmith.backend.native.steps.step import Array as Array
from tensmith.backend.native.steps.step import Dense as Dense
from tensmith.backend.native.steps.step import Encode as Encode
from tensmith.backend.native.steps.step import Heavy as Heavy
from tensmith.backend.native.steps.step import Join as Join
from tensmith.backend.native.steps.step import Light as Light
from tensmith.backend.native.steps.step import Look as Look
from tensmith.backend.native.steps.step import Rename as Rename
from tensmith.backend.native.steps.step import Step as Step
from tensmith.backend.native.steps.step import reads as reads
